"""Write tables and a plot of benchmark runs into docs/performance.md.

A table is written between `<!-- bench NAME -->` and `<!-- end -->`. The rest of the page stays.

    python tests/benchmarks/page.py run1/bench.json [run2/bench.json ...]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = ("case", "ours", "by hand", "ratio", "floor", "target", "original")


def time_text(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


class Row:
    """A case, by the medians of its runs."""

    def __init__(self, outcomes: list[dict]) -> None:
        self.outcomes = outcomes
        self.last = outcomes[-1]
        self.name, self.wanted = self.last["name"], self.last["target"]
        self.ours, self.hand, self.ratio = map(self.median, ("ours_ns", "hand_ns", "ratio"))
        timed = [o for o in outcomes if o["original_ns"]]
        self.original = timed and median(o["original_ns"] for o in timed)
        self.to_original = timed and median(o["ours_ns"] / o["original_ns"] for o in timed)
        self.added = median(o["ours_ns"] - o["hand_ns"] for o in outcomes)

    def median(self, key: str) -> float:
        return median(outcome[key] for outcome in self.outcomes)

    def ratio_text(self) -> str:
        spread = ", ".join(f"{outcome['ratio']:.2f}" for outcome in self.outcomes)
        if len(self.outcomes) == 1:
            spread = "{:.2f} to {:.2f}".format(*self.last["quartiles"])
        return f"**{self.ratio:.2f}** ({spread})"

    def floors(self) -> list[tuple[str, float, float]]:
        """Name, time and ratio to the call by hand. The first is the floor."""
        runs = zip(*(outcome["floors"] for outcome in self.outcomes), strict=False)
        return [
            (run[0]["name"], median(f["ns"] for f in run), median(f["ratio"] for f in run))
            for run in runs
        ]

    def floor_texts(self) -> list[str]:
        return [
            f"{name}{': ' * bool(name)}{time_text(ns)} ({ratio:.2f})"
            for name, ns, ratio in self.floors()
        ]

    def target(self) -> tuple[str, str, bool] | None:
        """The target, the measurement, and whether the target is met."""
        most, of = (self.wanted["most"], self.wanted["of"]) if self.wanted else (0, "")
        if of == "hand":
            return f"{most:g}", f"{self.ratio:.2f}", self.ratio <= most
        if of == "added":
            return f"+{most:.0f} ns", f"{self.added:+.0f} ns", self.added <= most
        if of == "original" and self.original:
            ratio = self.to_original
            return f"{most:g} of the original", f"{ratio:.2f}", ratio <= most
        return None

    def target_text(self) -> str:
        if not (target := self.target()):
            return ""
        wanted, measured, met = target
        return f"{wanted} ({measured}{'' if met else ', missed'})"

    def original_text(self) -> str:
        if not self.original:
            return self.last["original_note"]
        ratio = "< 0.01" if self.to_original < 0.01 else f"{self.to_original:.2f}"
        return f"{time_text(self.original)} ({ratio})"

    def cells(self) -> tuple[str, ...]:
        by_hand = f"{time_text(self.hand)} ({self.last['hand']})"
        note = f"; {self.last['note']}" if self.last["note"] else ""
        return (
            self.name + note, time_text(self.ours), by_hand, self.ratio_text(),
            "; ".join(self.floor_texts()), self.target_text(), self.original_text(),
        )  # fmt: skip


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def grouped(runs: list[dict]) -> dict[str, list[Row]]:
    """The rows of each group, in the order of the last run."""
    found: dict[tuple[str, str], list[dict]] = {}
    for run in runs:
        for outcome in run["outcomes"]:
            found.setdefault((outcome["group"], outcome["name"]), []).append(outcome)
    groups: dict[str, list[Row]] = {}
    for (group, _), outcomes in found.items():
        groups.setdefault(group, []).append(Row(outcomes))
    return groups


def about(runs: list[dict]) -> str:
    last = runs[-1]["about"]
    loads = ", ".join(
        f"{run['about']['load']['before'][0]:.1f} and {run['about']['load']['after'][0]:.1f}"
        for run in runs
    )
    versions = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch", "jax": "JAX",
                "tensorflow": "TensorFlow", "pyclesperanto": "pyclesperanto"}  # fmt: skip
    here = ", ".join(f"{title} {last[name]}" for name, title in versions.items() if name in last)
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs, one after the other"
    return (
        f"The tables show **{count}, on a shared machine with {last['cpus']} cores**. Its load "
        f"before and after each run: {loads}.\n{here}; no GPU."
    )


def growth(rows: list[Row]) -> str:
    grown = {row.name: row.last["peak_mib"] for row in rows}
    text = ", ".join(f"{name} {mib:.0f}" for name, mib in grown.items() if mib and mib > 1)
    return (
        "\n\nPeak growth of the process for arrays of 64 MiB, in MiB (none for all other pairs): "
        f"{text}."
    )


def blocks(runs: list[dict]) -> dict[str, str]:
    """The text for each marker of the page."""
    groups = grouped(runs)
    found = {"about": about(runs)}
    for group, rows in groups.items():
        found[group] = table(COLUMNS, [row.cells() for row in rows])
        if group == "large":
            found[group] += growth(rows)
    added = median(run["import_ms"]["added"] for run in runs)
    found["import"] = f"`import arraybridge` adds {added:.1f} ms to `import numpy`."
    missed = [
        (row.name, target[0], target[1], "".join(row.floor_texts()[:1]))
        for rows in groups.values()
        for row in rows
        if (target := row.target()) and not target[2]
    ]
    found["missed"] = table(("case", "target", "measured", "floor"), missed)
    return found


def plot(runs: list[dict], path: Path) -> None:
    """Plot the ratios of the small conversions between frameworks, with floors and targets."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in grouped(runs).get("small", []) if len(set(row.name.split(" -> "))) == 2]
    names = [row.name for row in rows]
    low = [min(outcome["quartiles"][0] for outcome in row.outcomes) for row in rows]
    high = [max(outcome["quartiles"][1] for outcome in row.outcomes) for row in rows]
    spread = [
        [row.ratio - a for row, a in zip(rows, low, strict=True)],
        [b - row.ratio for row, b in zip(rows, high, strict=True)],
    ]
    nothing = float("nan")
    floors = [row.floors()[0][2] if row.floors() else nothing for row in rows]
    targets = [row.wanted["most"] if row.wanted else nothing for row in rows]
    figure, axes = plt.subplots(figsize=(8, 0.3 * len(rows) + 1))
    axes.barh(names, [row.ratio for row in rows], xerr=spread, color="#4878a8")
    axes.scatter(floors, names, marker="D", color="#d08030", s=20, zorder=3, label="floor")
    axes.scatter(targets, names, marker="|", color="black", s=120, zorder=3, label="target")
    axes.axvline(1, color="grey", linewidth=1)
    axes.set_xlabel("time of arraybridge / time of the best hand-written call, (16, 16) float32")
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    runs = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    found = blocks(runs)
    page = DOCS / "performance.md"
    text = re.sub(
        r"(<!-- bench (\w+) -->\n).*?(?=<!-- end -->)",
        lambda place: f"{place[1]}{found[place[2]]}\n",
        page.read_text(),
        flags=re.DOTALL,
    )
    page.write_text(text)
    plot(runs, DOCS / "bench.svg")


if __name__ == "__main__":
    main()
