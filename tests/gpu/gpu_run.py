"""Run everything that needs a GPU, and write a report. Without a GPU, nothing is run or written.

make gpu [WHEEL=path]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import gpu_present
import gpu_report

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 3600
SANITIZED = ["tests/python/device/test_gpu_functions.py"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the root of the repository. A command that hangs is ended."""
    print("+", " ".join(command), file=sys.stderr)
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {TIMEOUT_S} s")


def tail(done: subprocess.CompletedProcess[str]) -> str:
    """What is left to say about a command that did not do its work."""
    lines = (done.stdout + done.stderr).strip().splitlines()[-3:]
    return f"exit status {done.returncode}: " + " ".join(lines)


def command(*arguments: str) -> dict[str, Any]:
    """The JSON of a command of the package."""
    done = run(sys.executable, "-m", "arraybridge", *arguments, "--json")
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": tail(done)}


def tests(folder: Path) -> dict[str, Any]:
    """The tests with the marker."""
    results = folder / "tests.xml"
    results.unlink(missing_ok=True)
    done = run(
        sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider",
        f"--junitxml={results}", "tests/python", "tests/simulated_cuda",
    )  # fmt: skip
    if not results.exists():
        return {"error": tail(done)}
    return outcomes(results.read_text())


def outcomes(text: str) -> dict[str, Any]:
    """What became of each test, from pytest's report in JUnit's format."""
    found: dict[str, Any] = {"passed": 0, "failed": [], "skipped": []}
    for case in xml.fromstring(text).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}".removeprefix("tests.python.")
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        if bad is not None:
            found["failed"].append({"name": name, "reason": str(bad.get("message"))})
        elif skipped is not None:
            found["skipped"].append({"name": name, "reason": str(skipped.get("message"))})
        else:
            found["passed"] += 1
    return found


def bench(folder: Path) -> dict[str, Any]:
    """The benchmark's GPU cases."""
    out = folder / "bench.json"
    out.unlink(missing_ok=True)
    done = run(sys.executable, "tests/gpu/gpu_cases.py", "--out", str(out))
    return {"outcomes": json.loads(out.read_text())} if out.exists() else {"error": tail(done)}


def sanitizer(folder: Path) -> dict[str, Any]:
    """The tests of Rust functions on device memory, under compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"state": "not installed"}
    results = folder / "sanitizer.xml"
    results.unlink(missing_ok=True)
    done = run(
        tool, "--tool", "memcheck", "--error-exitcode", "99", "--target-processes", "all",
        sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider",
        f"--junitxml={results}", *SANITIZED,
    )  # fmt: skip
    if done.returncode:
        return {"error": tail(done)}
    # pytest's status is 0 too if every test was skipped.
    if not results.exists() or not outcomes(results.read_text())["passed"]:
        return {"error": "no test ran"}
    return {"state": "found nothing"}


def about() -> dict[str, Any]:
    """The commit that is tested."""
    commit = run("git", "rev-parse", "HEAD").stdout.strip() or "unknown"
    return {
        "commit": commit,
        "dirty": bool(run("git", "status", "--porcelain").stdout.strip()),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def main() -> int:
    """Return 0 if everything passed, 1 if something failed, 2 if there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "gpu-report.md")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu")
    options = parser.parse_args()
    status = gpu_present.main()
    if status:
        return status
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    record = {
        **about(),
        "doctor": command("doctor", "--full"),
        "selftest": command("selftest"),
        "tests": tests(options.work),
        "bench": bench(options.work),
        "sanitizer": sanitizer(options.work),
    }
    (options.work / "record.json").write_text(json.dumps(record, indent=1))
    options.out.write_text(gpu_report.page(record))
    failed = gpu_report.failures(record)
    print(f"{options.out}: {len(failed)} failures")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
