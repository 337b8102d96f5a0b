"""Run the conformance suite against a module, and write what it got right.

python tests/conformance/run.py --module arraybridge --out build/conformance
    --python PATH   the interpreter to run it with (this one by default)
    --leave-out X   the groups to leave out, separated by commas
    --name NAME     what to call the result (the module by default)
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import suite  # noqa: E402

SILENCE_S = 120
POLL_S = 0.05
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"}


class Child:
    """A process that runs the cases from a file. Its output goes to a file, not to a pipe."""

    def __init__(self, python: str, module: str, cases: Path) -> None:
        self._out = tempfile.NamedTemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), module, str(cases)],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )

    def finish(self) -> tuple[list[dict[str, Any]], str]:
        """Wait for the end. Return the messages and how the process ended."""
        started, hung = time.time(), False
        while self._process.poll() is None:
            time.sleep(POLL_S)
            last = max(started, os.stat(self._out.name).st_mtime)
            if time.time() - last > SILENCE_S:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                hung = True
        lines = Path(self._out.name).read_text(errors="replace").split("\n")[:-1]
        return [json.loads(line) for line in lines], self._ending(hung)

    def _ending(self, hung: bool) -> str:
        code = self._process.returncode
        if hung:
            return f"hung for {SILENCE_S} s"
        if code < 0:
            return f"the process was killed by {signal.Signals(-code).name}"
        self._err.seek(0)
        errors = self._err.read().decode(errors="replace").strip().splitlines()
        return f"exit status {code}: {errors[-1] if errors else ''}" if code else ""


def run(module: str, python: str, leave_out: Container[str] = ()) -> dict[str, Any]:
    """Run every case. One that ends its process is wrong, and the others go on in a new one."""
    cases = [case for case in suite.cases() if case["group"] not in leave_out]
    results: dict[int, tuple[str, str]] = {}
    about: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        while len(results) < len(cases):
            left = [(n, case) for n, case in enumerate(cases) if n not in results]
            path.write_text(json.dumps(left))
            messages, ending = Child(python, module, path).finish()
            started = None
            for message in messages:
                started = message.get("start", started)
                if "number" in message:
                    results[message["number"]] = (message["status"], message["got"])
                elif "version" in message:
                    about = message
            if messages and messages[-1] == {"end": True}:
                break
            if started is None or started in results:
                raise SystemExit(f"{module} with {python}: {ending}")
            results[started] = ("crashed", ending)
            print(f"{cases[started]['id']}: {ending}", file=sys.stderr)
    rows = [
        case | {"status": results[number][0], "got": results[number][1]}
        for number, case in enumerate(cases)
    ]
    return about | {"module": module, "cases": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="arraybridge")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=Path("build/conformance"))
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--name")
    options = parser.parse_args()
    found = run(options.module, options.python, options.leave_out.split(","))
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.name or options.module
    path = options.out / f"{name}.json"
    path.write_text(json.dumps(found | {"name": name}, indent=1))
    counts = Counter(row["status"] for row in found["cases"])
    print(f"{name} {found['version']}: {dict(counts)}; {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
