"""Compare OpenHCS with this package to OpenHCS with the original arraybridge.

    python tests/consumer/consumer.py --upstream FOLDER --images FOLDER --out FOLDER --version 0.8.6

Both run `work.py` in this environment, which has this package and that version of OpenHCS; the
first FOLDER has the original package. Each difference must be among `EXPLAINED`. The status is 1 if
one is not, or if a part does not run.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

WORK = Path(__file__).with_name("work.py")
# Why a result differs. docs/migration.md says more of each.
EXPLAINED = {
    "dtype": "the result has the dtype of the image, or the function's own where it is a mask",
    "rounded": "the result has the image's integer dtype, and the original's is a float",
    "scale": "values are rounded and clamped; the original stretches them to the dtype's range",
    "by one": "values are rounded, and the original truncates them",
    "clamped": "integers beyond the dtype are clamped, and wrap around in the original",
    "ours raised ResultCollapsedError": "rounding would make the result black",
    "ours works": "the original package fails",
}


def run(out: Path, options: argparse.Namespace, *folders: Path) -> tuple[dict, dict]:
    """Run work.py with the package that is first in these folders or in the environment."""
    shutil.rmtree(out, ignore_errors=True)
    home = out / "home"
    home.mkdir(parents=True)
    # OpenHCS keeps what it found out about functions in the home folder.
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "QT_QPA_PLATFORM": "offscreen",
        "OPENHCS_CPU_ONLY": "true",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        # PoCL compiles kernels for minutes. All runs find what is compiled already.
        "POCL_CACHE_DIR": str(options.out.absolute() / "pocl"),
    }
    with open(out / "log.txt", "w") as log:
        command = [sys.executable, str(WORK), str(out), str(options.images), str(options.every)]
        command += options.without
        done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)
    if done.returncode or not (out / "report.json").exists():
        sys.exit(f"work.py ended with status {done.returncode}; see {out / 'log.txt'}")
    report = json.loads((out / "report.json").read_text())
    return report, pickle.loads((out / "values.pickle").read_bytes())


def arrays(value) -> list[np.ndarray]:
    """The arrays in a result, in order."""
    if isinstance(value, np.ndarray):
        return [value]
    return [array for item in value for array in arrays(item)] if isinstance(value, list) else []


def fails(value) -> bool:
    return isinstance(value, str) and value.startswith("raised ")


def difference(theirs, ours) -> str | None:
    """How two results differ: a key of EXPLAINED, another word, or None."""
    if fails(theirs) or fails(ours):
        both = fails(theirs) and fails(ours)
        return None if both else "ours works" if fails(theirs) else f"ours {ours}"
    a, b = arrays(theirs), arrays(ours)
    if not a and not b:
        equal = theirs == ours or theirs != theirs
        return None if equal else "value"
    if [x.shape for x in a] != [y.shape for y in b]:
        return "shape"
    pairs = list(zip(a, b, strict=True))
    if all(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc") for x, y in pairs):
        return None if all(x.dtype == y.dtype for x, y in pairs) else "dtype"
    if all(is_near(x, y) for x, y in pairs):
        return "by one"
    if any(is_stretched(x, y) for x, y in pairs):
        return "scale"
    if all(is_clamped(x, y) for x, y in pairs):
        return "clamped"
    if all(is_rounded(x, y) for x, y in pairs):
        return "rounded"
    return "values"


def is_near(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Whether integers of one dtype differ by at most one."""
    if theirs.dtype.kind not in "iu" or ours.dtype != theirs.dtype:
        return False
    return np.abs(theirs.astype("float64") - ours.astype("float64")).max(initial=0) <= 1


def is_stretched(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Whether the original's result reaches from end to end of its integer dtype, and ours not.

    A result that rounding made black is not among them.
    """
    if theirs.dtype.kind not in "iu" or ours.dtype != theirs.dtype or not theirs.size:
        return False
    ends = np.iinfo(theirs.dtype)
    return theirs.min() == 0 and theirs.max() == ends.max and 1 < ours.max() < ends.max


def is_clamped(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Whether integers differ only where ours are at an end of their dtype."""
    if theirs.dtype.kind not in "iu" or ours.dtype != theirs.dtype:
        return False
    ends = np.iinfo(ours.dtype)
    return bool(np.isin(ours[ours != theirs], (ends.min, ends.max)).all())


def is_rounded(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Whether ours are the original's numbers, as the nearest of an integer dtype."""
    if theirs.dtype.kind != "f" or ours.dtype.kind not in "iu":
        return False
    ends = np.iinfo(ours.dtype)
    nearest = np.clip(np.rint(theirs.astype("float64")), ends.min, ends.max)
    return np.array_equal(nearest, ours.astype("float64"))


def compare(theirs: dict, ours: dict) -> collections.Counter:
    """Print what differs. Return how often each kind of result occurs."""
    counts: collections.Counter = collections.Counter()
    for part in sorted({*theirs, *ours}):
        left, right = theirs.get(part, {}), ours.get(part, {})
        for name in sorted({*left, *right}):
            if name not in left or name not in right:
                kind = "only ours" if name in right else "only the original's"
            else:
                kind = difference(left[name], right[name])
            counts[kind or "equal"] += 1
            if kind:
                print(f"{part}: {name}: {kind}")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", type=Path, required=True)
    parser.add_argument(
        "--ours", type=Path, help="a folder with this package, instead of the environment's"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of OpenHCS in this environment")
    parser.add_argument("--images", type=Path, required=True, help="a folder with StarDist's wheel")
    parser.add_argument("--every", type=int, default=1, help="call one of so many functions")
    parser.add_argument("--without", nargs="*", default=[], help="packages that are hidden")
    options = parser.parse_args()
    out = options.out.absolute() / options.version
    their_report, theirs = run(out / "upstream", options, options.upstream.absolute())
    report, ours = run(out / "ours", options, *([options.ours.absolute()] if options.ours else []))
    print(f"OpenHCS {options.version}")
    print(f"upstream: {their_report['arraybridge']}\nours:     {report['arraybridge']}")
    counts = compare(theirs, ours)
    missing = {name: error for name, error in report["names"].items() if error}
    for name, error in missing.items():
        print(f"name: {name}: {error}")
    for name, error in report["errors"].items():
        print(f"{name} does not run with this package:\n{error}")
    for name, error in their_report["errors"].items():
        print(f"{name} does not run with the original package:\n{error}")
    for name, seconds in report["seconds"].items():
        print(f"{name}: {their_report['seconds'].get(name)} s upstream, {seconds} s ours")
    print(
        f"functions found: {their_report['functions found']} upstream, {report['functions found']}"
    )
    unexplained = {k: n for k, n in counts.items() if k not in EXPLAINED and k != "equal"}
    bad = bool(unexplained or missing or report["errors"])
    print(
        f"{'FAILED' if bad else 'passed'}: {len(report['names'])} names, {len(missing)} missing; "
        f"results: {dict(counts)}; unexplained: {unexplained}"
    )
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
