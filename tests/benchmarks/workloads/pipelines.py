"""Whole pipelines: as an expert writes them by hand, with arraybridge, and with the original.

    python tests/benchmarks/workloads/pipelines.py [--only plate memory] [--rounds 3] [--write]

Each contender works in a process of its own, in turns. The results are compared bit for bit with
those by hand. The tables show medians, and the ratio is that of runs that followed each other.
With --sample, perf samples one more run of ours: how much of the processor's time is
arraybridge's own, or that of the C library and the kernel on its behalf. And one more run of each
counts what it allocates.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python")]
import numpy as np  # noqa: E402
from jobs import HAND, JOBS, ORIGINAL, OURS, Job  # noqa: E402

Found = dict[str, Any]
SAMPLES_PER_S = 499


def work(
    name: str, contender: str, size: int, result: Path, folder: str, under: Sequence[str] = ()
) -> Found:
    """What a contender needed, or how it failed; ``under`` is a command that starts others."""
    command = [sys.executable, str(HERE / "work.py"), name, contender, str(size), str(result)]
    done = subprocess.run([*under, *command, folder], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    return {"failed": f"the process ended with status {done.returncode}"}


def equal(first: Path, second: Path) -> bool:
    a, b = (np.load(path, mmap_mode="r") for path in (first, second))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def own_share(name: str, size: int, scratch: Path) -> float | None:
    """The part of the processor's time, in all threads, that one run spends in arraybridge."""
    if shutil.which("perf") is None:
        return None
    data = scratch / "perf.data"
    record = ["perf", "record", "--quiet", "--event", "cpu-clock", "--freq", str(SAMPLES_PER_S),
              "--clockid", "CLOCK_MONOTONIC", "--call-graph", "dwarf,4096"]  # fmt: skip
    done = work(name, OURS, size, scratch / "s.npy", "", [*record, "--output", str(data), "--"])
    script = ["perf", "script", "--input", str(data), "--ns", "--no-inline"]
    listed = subprocess.run(
        [*script, "--fields", "time,ip,sym,dso"], capture_output=True, text=True, check=False
    )
    if listed.returncode or "began_s" not in done:
        return None
    return share_of(listed.stdout, done["began_s"], done["ended_s"])


def counting_allocator(scratch: Path) -> Path:
    """The library that ``allocated.c`` makes, to preload. Building arraybridge needs cc as well."""
    library = scratch / "allocated.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "allocated.c")]
    subprocess.run(command, check=True)
    return library


def share_of(script: str, began_s: float, ended_s: float) -> float | None:
    """Our part of the samples between two times; ``script`` is what perf lists of them."""
    taken = []
    for block in script.split("\n\n"):
        when, *frames = block.strip().splitlines() or [""]
        if when.rstrip(": ") and began_s <= float(when.rstrip(": ")) <= ended_s:
            taken.append(is_own([frame.rpartition(" (")[2] for frame in frames]))
    return statistics.fmean(taken) if taken else None


def is_own(files: list[str]) -> bool:
    """Whether a sample was taken in arraybridge, or in what it calls of the C library."""
    for file in files:
        if not any(library in file for library in ("libc.so", "ld-linux", "libm.so", "[kernel")):
            return "/arraybridge/" in file
    return False


def measure(name: str, job: Job, size: int, rounds: int, folder: str, sample: bool) -> Found:
    runs: dict[str, list[Found]] = {contender: [] for contender in job.contenders}
    if not folder:
        runs.pop(ORIGINAL, None)
    with tempfile.TemporaryDirectory() as scratch:
        hand = Path(scratch) / "hand.npy"
        for turn in range(rounds):
            # By hand comes first, since the others are compared with it.
            others = [contender for contender in runs if contender != HAND]
            for contender in [HAND, *(reversed(others) if turn % 2 else others)]:
                path = hand if contender == HAND else Path(scratch) / "other.npy"
                found = work(name, contender, size, path, folder)
                if contender == HAND and "failed" in found:
                    raise SystemExit(f"{name}: {contender}: {found['failed']}")
                if "failed" not in found and not equal(hand, path):
                    found = {"failed": "wrong result"}
                runs[contender].append(found)
                print(f"  {name}: {contender}: {found}", file=sys.stderr)
        share, peaks = None, dict[str, float | None]()
        if sample:
            share = own_share(name, size, Path(scratch))
            under = ["env", f"LD_PRELOAD={counting_allocator(Path(scratch))}"]
            for contender in runs:
                found = work(name, contender, size, Path(scratch) / "s.npy", folder, under)
                peaks[contender] = found.get("allocated_mib")
    return {"name": name, "about": job.about, "size": size, "most": job.most, "runs": runs,
            "own_share": share, "allocated_mib": peaks}  # fmt: skip


def summary(found: Found) -> list[str]:
    """A line of the table for each contender."""
    hand = found["runs"][HAND]
    lines = []
    for contender, runs in found["runs"].items():
        start = f"| {found['name']}, {found['size']} | {contender}"
        failed = [run["failed"] for run in runs if "failed" in run]
        if failed:
            lines.append(f"{start} | fails: {failed[0]} | | | | | |")
            continue
        ratios = [
            ours["wall_s"] / theirs["wall_s"] for ours, theirs in zip(runs, hand, strict=True)
        ]
        keys = ("wall_s", "processor_s", "peak_mib")
        median = {key: statistics.median(run[key] for run in runs) for key in keys}
        allocated = found["allocated_mib"].get(contender)
        share = found["own_share"] if contender == OURS else None
        ratio = "" if contender == HAND else (
            f"**{statistics.median(ratios):.2f}** ({', '.join(f'{each:.2f}' for each in ratios)})"
        )  # fmt: skip
        target = ""
        if contender == OURS:
            missed = statistics.median(ratios) > found["most"]
            target = f"{found['most']}{' (missed)' if missed else ''}"
        lines.append(
            f"{start} | {median['wall_s']:.3g} s | {ratio} | {target} | "
            f"{median['processor_s']:.3g} s | {median['peak_mib']:.0f} MiB | "
            f"{'' if allocated is None else f'{allocated:.0f} MiB'} | "
            f"{'' if share is None else f'{share:.1%}'} |"
        )
    return lines


HEAD = """\
| workload | | wall | over by hand | target | processor | peak memory | allocated | own code |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def write(text: str) -> None:
    """Put the table into docs/performance.md."""
    page = HERE.parents[2] / "docs" / "performance.md"
    before, mark, rest = page.read_text().partition("<!-- workloads -->\n")
    page.write_text(before + mark + text + "\n" + rest[rest.index("<!-- end -->") :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", type=float, default=1.0, help="the part of each job's size to do")
    parser.add_argument("--upstream", default="", help="the folder of the original package")
    parser.add_argument(
        "--sample", action="store_true", help="sample our share with perf, and count allocations"
    )
    parser.add_argument("--write", action="store_true", help="put it into docs/performance.md")
    options = parser.parse_args()
    found, before = [], os.getloadavg()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [HEAD]
    print(HEAD)
    for name in options.only:
        size = max(1, round(JOBS[name].size * options.part))
        job = JOBS[name]
        found.append(measure(name, job, size, options.rounds, options.upstream, options.sample))
        lines += summary(found[-1])
        print("\n".join(summary(found[-1])), flush=True)
        # A run takes long, and may be interrupted.
        report = {"load": {"before": before, "after": os.getloadavg()}, "jobs": found}
        (options.out / "workloads.json").write_text(json.dumps(report, indent=1))
    lines.append(f"\nLoad before and after: {before[0]:.1f} and {os.getloadavg()[0]:.1f}.")
    print(lines[-1])
    if options.write:
        write("\n".join(lines))


if __name__ == "__main__":
    main()
