"""Run everything that needs a GPU, and write a report. Without a GPU, nothing is run or written.

make gpu [WHEEL=path] [GPU_PYTHON=python3] [BUDGET=seconds]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gpu_present
import gpu_report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT_S = 3600
TEST_TIMEOUT_S = 120
SANITIZED = ["tests/python/device/test_gpu_functions.py"]
# A step has to end by this part of the budget. What it leaves is the next one's.
ENDS = {"doctor": 0.2, "tests": 0.65, "selftest": 0.75, "bench": 0.85, "sanitizer": 1.0}


class Done(NamedTuple):
    """How a command ended, what it printed, and the words for it if it did not do its work."""

    status: int
    out: str
    words: str


@dataclass
class Run:
    """A folder for the results, and the seconds that all steps together may take."""

    work: Path
    budget: float | None = None
    began: float = field(default_factory=time.monotonic)

    def seconds(self, step: str) -> float:
        """How long the step may take from now on."""
        if self.budget is None:
            return TIMEOUT_S
        return max(self.began + ENDS[step] * self.budget - time.monotonic(), 0)

    def process(self, step: str, *command: str, **variables: str) -> Done:
        """Run a command in the root of the repository.

        What it prints is kept from the first line on: its errors in gpu.log, the rest in out.txt
        until it ends. A command that hangs is ended, with the processes that it began.
        """
        seconds, late = self.seconds(step), ""
        with (self.work / "gpu.log").open("ab") as log, (self.work / "out.txt").open("w+b") as out:
            log.write(f"+ {' '.join(command)}\n".encode())
            log.flush()
            began = log.tell()
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=log, env={**os.environ, **variables},
                start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status, late = 124, f"no end after {seconds:.0f} s "
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            printed = out.read()
            log.seek(0, os.SEEK_END)
            log.write(printed)
        lines = printed + (self.work / "gpu.log").read_bytes()[began:]
        last = " ".join(lines.decode(errors="replace").strip().splitlines()[-3:])
        return Done(status, printed.decode(errors="replace"), f"exit status {status}: {late}{last}")

    def json(self, step: str, *arguments: str) -> dict[str, Any]:
        """The JSON of a command of the package."""
        done = self.process(step, sys.executable, "-m", "arraybridge", *arguments, "--json")
        try:
            return json.loads(done.out)
        except ValueError:
            return {"error": done.words}

    def doctor(self) -> dict[str, Any]:
        """Every framework and every pair."""
        return self.json("doctor", "doctor", "--full")

    def selftest(self) -> dict[str, Any]:
        """Every check."""
        return self.json("selftest", "selftest")

    def pytest(self, step: str, *arguments: str, before: Sequence[str] = ()) -> dict[str, Any]:
        """The tests with the marker in some files. Those that did not run are missing."""
        log = self.work / f"{step}.jsonl"
        log.unlink(missing_ok=True)
        options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "gpu_log"]
        options += ["--continue-on-collection-errors"]
        if importlib.util.find_spec("pytest_timeout"):
            # The process is ended: a call that hangs in CUDA does not come back to Python.
            options += [f"--timeout={TEST_TIMEOUT_S}", "--timeout-method=thread"]
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = self.process(
            step, *before, sys.executable, "-m", "pytest", *options, *arguments,
            GPU_LOG=str(log), PYTHONPATH=path,
        )  # fmt: skip
        found = outcomes(log.read_text()) if log.exists() else {}
        # The status is 1 if tests failed.
        return found if found and done.status in (0, 1) else {**found, "error": done.words}

    def tests(self) -> dict[str, Any]:
        """The tests with the marker, in processes beside each other where pytest-xdist is."""
        files = [*marked("tests/python"), "tests/simulated_cuda"]
        if importlib.util.find_spec("image_filters"):
            files += marked("examples/image-filters/tests")
        beside = importlib.util.find_spec("xdist")
        return self.pytest("tests", *(["-n", "4", "--dist", "worksteal"] if beside else []), *files)

    def bench(self) -> dict[str, Any]:
        """The benchmark's GPU cases."""
        out = self.work / "bench.json"
        out.unlink(missing_ok=True)
        done = self.process("bench", sys.executable, "tests/gpu/gpu_cases.py", "--out", str(out))
        found = {"outcomes": json.loads(out.read_text())} if out.exists() else {}
        return {**found, "error": done.words} if done.status else found

    def sanitizer(self) -> dict[str, Any]:
        """The tests of Rust functions on device memory, under compute-sanitizer."""
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            return {"state": "not installed"}
        # A test asks for more memory than there is, and frameworks ask for what a driver may lack.
        found = self.pytest(
            "sanitizer", "-p", "no:xdist", *SANITIZED,
            before=[tool, "--tool", "memcheck", "--error-exitcode", "99", "--report-api-errors",
                    "no", "--target-processes", "all"],
        )  # fmt: skip
        if "error" in found:
            return {"error": found["error"]}
        if found["failed"]:
            return {"error": f"{len(found['failed'])} tests failed under it"}
        # pytest's status is 0 too if every test was skipped.
        return {"state": "found nothing"} if found["passed"] else {"error": "no test ran"}


def marked(folder: str) -> list[str]:
    """The files with the marker. Others may need what is not there."""
    files = sorted((ROOT / folder).rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "pytest.mark.gpu" in file.read_text()]


def outcomes(text: str) -> dict[str, Any]:
    """What became of each test, from the lines of gpu_log."""
    found: dict[str, Any] = {"passed": 0, "failed": [], "skipped": []}
    for each in map(json.loads, text.splitlines()):
        name = each["name"].removeprefix("tests/python/")
        if each["outcome"] == "passed":
            found["passed"] += 1
        else:
            found[each["outcome"]].append({"name": name, **each["why"]})
    return found


def about(commit: str | None) -> dict[str, Any]:
    """The commit that is tested."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        with contextlib.suppress(OSError):
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            return done.stdout.strip()
        return ""

    return {
        "commit": commit or git("rev-parse", "HEAD") or "unknown",
        "dirty": not commit and bool(git("status", "--porcelain")),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def main() -> int:
    """Return 0 if everything passed, 1 if something failed, 2 if there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "gpu-report.md")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--budget", type=float, help="seconds for all steps together")
    parser.add_argument("--commit", help="the commit that is tested, where git cannot say")
    options = parser.parse_args()
    status = gpu_present.main()
    if status:
        return status
    options.work.mkdir(parents=True, exist_ok=True)
    (options.work / "gpu.log").unlink(missing_ok=True)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    run = Run(options.work, options.budget)
    record = {**about(options.commit), **{step: {"error": "it was not run"} for step in ENDS}}
    for step in ENDS:
        record[step] = getattr(run, step)()
        # What is there is kept if the next step ends everything.
        (options.work / "record.json").write_text(json.dumps(record, indent=1))
        options.out.write_text(gpu_report.page(record))
    failed = gpu_report.failures(record)
    print(f"{options.out}: {len(failed)} failures")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
