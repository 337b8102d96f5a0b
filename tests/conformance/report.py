"""Write docs/conformance.md from the results in a folder: python report.py build/conformance."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "conformance.md"
SHOWN = 4
# Groups in which this project has rules that differ from the original's on purpose.
OWN_RULES = ("declared: dtypes and values", "declared: calls", "out of memory")
HEAD = """# Conformance

`tests/conformance` describes the right behaviour of conversions, detection and declared functions
as data: {count} cases, each with the right outcome and its reason. The suite runs against any
module with `convert_memory` and `detect_memory_type`, and uses nothing of arraybridge to make
arrays or to read results. `make conformance` runs it against this wheel and against versions of the
Python original, and writes this page.

This project's rules count, even if the original deliberately differs. In three groups this matters
most:

- *declared: dtypes and values*: here, floats are rounded and clamped. The original stretches them
  to the range of the dtype.
- *declared: calls*: here, arguments are converted to the declared framework.
- *out of memory*: here, calls are also retried without a GPU.

The row *all but declared functions* leaves these groups out. A case is *silent* if the values or
the kind of a result are wrong without an error or a warning. It is *crashed* if the process ended.
Other wrong cases are errors, and results with smaller mistakes.

The suite was written from this project's rules. Full marks mean that the project keeps them.
Everything ran on a CPU, with
{frameworks}.
Version 0.5.2 of the original finds no device of pyclesperanto without a GPU.
Versions 0.2.8 and 0.2.11 differ in their decorators only.

"""


def main() -> None:
    folder = Path(sys.argv[1])
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    found.sort(key=lambda result: (result["name"] != result["module"], _version(result)))
    named = {_title(result): result["cases"] for result in found}
    text = HEAD.format(count=len(found[0]["cases"]), frameworks=_frameworks(found[0]))
    # The section of tests/crossings stays.
    kept = re.search(r"<!-- crossings:.*?<!-- /crossings -->\n", PAGE.read_text(), re.DOTALL)
    text += _table(named) + (f"{kept[0]}\n" if kept else "") + _differences(named)
    PAGE.write_text(text)
    print(PAGE)


def _version(result: dict[str, Any]) -> list[int]:
    return [int(part) for part in result["version"].split(".")]


def _title(result: dict[str, Any]) -> str:
    ours = result["name"] == result["module"]
    return f"{'this project' if ours else 'original'} {result['version']}"


def _frameworks(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["frameworks"].items())


def _table(named: dict[str, list[dict[str, Any]]]) -> str:
    groups = list(dict.fromkeys(row["group"] for rows in named.values() for row in rows))
    lines = ["| | cases | " + " | ".join(named) + " |", "|---|---|" + "---|" * len(named)]
    undisputed = [group for group in groups if group not in OWN_RULES]
    sums = {"**all**": groups, "**all but declared functions**": undisputed}
    for title, parts in ({group: [group] for group in groups} | sums).items():
        chosen = [[r for r in rows if r["group"] in parts] for rows in named.values()]
        cells = [_score(rows) for rows in chosen]
        lines.append(f"| {title} | {len(chosen[0])} | " + " | ".join(cells) + " |")
    for status in ("silent", "crashed"):
        chosen = [[r for r in rows if r["group"] in undisputed] for rows in named.values()]
        counts = [sum(r["status"] == status for r in rows) for rows in chosen]
        lines.append(f"| {status} in these | | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n\n"


def _score(rows: list[dict[str, Any]]) -> str:
    right = sum(row["status"] == "right" for row in rows)
    # Rounded down, so that only what is all right is 100%.
    return f"{right} ({int(1000 * right / len(rows)) / 10:.1f}%)"


def _differences(named: dict[str, list[dict[str, Any]]]) -> str:
    text = "## Wrong results\n\nThe most frequent, with the number of cases and one of them.\n"
    for title, rows in named.items():
        text += f"\n### {title}\n\n"
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        examples: dict[tuple[str, str], str] = {}
        for row in rows:
            if row["status"] != "right":
                kind = _kind(row)
                kinds[row["group"]][kind] += 1
                examples.setdefault((row["group"], kind), row["id"])
        for group, counts in kinds.items():
            text += f"- **{group}**\n"
            for kind, count in counts.most_common(SHOWN):
                text += f"    - {count}: {kind} ({examples[group, kind]})\n"
        text += "" if kinds else "Nothing.\n"
    return text


def _kind(row: dict[str, Any]) -> str:
    """What was wrong, without what differs from case to case."""
    got = row["got"].split("\n")[0].replace("|", "/")
    got = re.sub(r"0x[0-9a-f]+|\d[\d.e+-]*", "N", got)
    got = re.sub(r"\b(bool|u?int|b?float|complex)N\w*", "DTYPE", got)
    got = re.sub(r"</?[\w. ]+>", "", got)
    return f"{row['status']}: {got.removeprefix('silent: ')[:110]}"


if __name__ == "__main__":
    main()
