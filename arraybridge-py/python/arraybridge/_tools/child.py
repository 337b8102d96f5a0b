"""Processes that report their results, one JSON object per line.

The parent starts a ``Child`` and waits for it; the child calls ``reporter`` first of all. This
module as a child imports other modules in the given order, and reports nothing: the package itself
is imported by ``python -m``, but it imports no framework and prepares nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from arraybridge import load_table

__all__ = ["Child", "reporter", "run_cases", "run_each", "wait_for"]

# By default, JAX and TensorFlow take most of a GPU's memory when they start. Children run side by
# side, and beside the user's own programs.
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
# Files of tables that a child loads before all else, separated as in PATH.
TABLES = "ARRAYBRIDGE_CHECKED_TABLES"
POLL_S = 0.02


class Child:
    """A module of this folder, run in a new interpreter.

    Its output goes to files: a pipe could fill up, or be held open by a process that it started.
    Windows lacks groups of processes, so there a process that the child started is not killed.
    """

    def __init__(
        self, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        # A process that was not killed may still have a file open, which Windows does not delete.
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._out, self._err = (Path(self._folder.name, name) for name in ("out", "err"))
        self._hung: float | None = None
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.{module}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **ENVIRONMENT, **(environment or {})},
                start_new_session=True,
            )

    def is_over(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def wait(self, silence: float, watch: Callable[[], None] = lambda: None) -> None:
        """Wait for the end. Kill the process if it is silent for ``silence`` seconds."""
        length, last = 0, time.monotonic()
        while not self.is_over():
            watch()
            time.sleep(POLL_S)
            if (now := self._out.stat().st_size) != length:
                length, last = now, time.monotonic()
            if time.monotonic() - last > silence:
                self._hung = silence
                self.kill()

    def kill(self) -> None:
        """End the process, if it still runs, and those that it started."""
        if self._process.poll() is None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.wait()

    def messages(self) -> list[dict[str, Any]]:
        """The messages so far."""
        lines = self._out.read_text(encoding="utf-8", errors="replace").split("\n")
        return [json.loads(line) for line in lines[:-1]]

    def problem(self) -> str | None:
        """The failure of the process; None if it did not fail."""
        code = self._process.returncode
        if self._hung is not None:
            return f"hung: it reported nothing for {self._hung:g} s"
        if code < 0:
            return f"crashed: the process was killed by {signal.Signals(-code).name}"
        if code:
            errors = self._err.read_text(errors="replace").strip().splitlines()
            return errors[-1] if errors else f"exit status {code}"
        return None


def wait_for(
    children: Iterable[Child], silence: float, watch: Callable[[], None] = lambda: None
) -> None:
    """Wait for children that run side by side. None is left if the wait is interrupted.

    ``watch`` is called now and then.
    """
    children = list(children)
    try:
        for child in children:
            child.wait(silence, watch)
    finally:
        for child in children:
            child.kill()


def reporter() -> Callable[..., None]:
    """Return the function with which a child reports.

    Standard output is then for messages only: what frameworks print goes to standard error.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for file in filter(None, os.environ.get(TABLES, "").split(os.pathsep)):
        load_table(file)

    def report(**message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    return report


# A name, what is known of the case before it ends, and a function that returns its outcome.
Case = tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]


def run_each(cases: Iterable[Case], over: Sequence[str], report: Callable[..., None]) -> None:
    """Run the cases of a child but for those that are ``over``, and report each.

    A case that raises has the status "failed".
    """
    for name, about, run in cases:
        if name in over:
            continue
        report(start=name, **about)
        start = time.perf_counter()
        try:
            found = run()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            found = {"status": "failed", "reason": reason, "traceback": traceback.format_exc()}
        seconds = round(time.perf_counter() - start, 3)
        report(**{"name": name, "seconds": seconds, **about, **found})


def run_cases(
    module: str,
    *arguments: str,
    silence: float,
    bar: Any = None,
    environment: Mapping[str, str] | None = None,
) -> Iterable[dict[str, Any]]:
    """Run a child that goes through cases, and start it again after the case that ended it.

    The child gets the names of the cases to leave out as its last argument, a JSON list. It reports
    ``start=name`` before each case, and the case with its ``name`` and ``status`` after it. Other
    messages are passed on. A case that ended the child has the status "failed", a ``reason`` and
    what else was reported before it.
    ``bar`` shows the case that is running. ``environment`` has variables for the child.
    """
    over: list[str] = []

    def show(child: Child, before: int) -> None:
        if bar is not None and not bar.disable:
            messages = child.messages()
            started = [message["start"] for message in messages if "start" in message]
            bar.set_postfix_str("".join(started[-1:]), refresh=False)
            bar.update(before + sum("name" in message for message in messages) - bar.n)

    while True:
        child = Child(module, *arguments, json.dumps(over), environment=environment)
        wait_for([child], silence, partial(show, child, len(over)))
        current, about = None, {}
        for message in child.messages():
            if "start" in message:
                current, about = message.pop("start"), message
                continue
            if "name" in message:
                over.append(message["name"])
                current, about = None, {}
            yield message
        problem = child.problem()
        if problem is None:
            return
        name = current or "start of the process"
        yield {**about, "name": name, "status": "failed", "reason": problem}
        # What ends the process although it is left out would end it again.
        if current is None or current in over:
            return
        over.append(current)


if __name__ == "__main__":
    for _module in sys.argv[1:]:
        importlib.import_module(_module)
