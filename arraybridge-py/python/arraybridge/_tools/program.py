"""Run a program with a trace around it, as ``python -m arraybridge trace`` does."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence

from arraybridge import trace

from .page import callers_table
from .pipe import NOBODY_READS, flushed, nobody_reads
from .terminal import show

__all__ = ["run"]

MOST_CALLERS = 10
INTERRUPTED = 130
# Python's own status for a script that it cannot open.
NOT_OPENED = 2


def run(program: Sequence[str], is_module: bool, save: str | None, as_json: bool) -> int:
    """Run a script or a module with its arguments, and print the report to stderr.

    Return the exit status of the program.
    """
    try:
        # Python runs the `__main__` of a folder too.
        if not is_module and not os.path.isdir(program[0]):
            open(program[0], "rb").close()
        if save is not None:
            # The program may change the folder, and what it did would be lost if this failed later.
            save = os.path.abspath(save)
            open(save, "ab").close()
    except OSError as error:
        print(f"arraybridge trace: cannot open {error.filename}: {error.strerror}", file=sys.stderr)
        return NOT_OPENED
    collected = trace(everywhere=True)
    with collected:
        status = _status_of(program, is_module)
    status = flushed(status)
    # Without a file, both would print to stdout.
    if sys.stderr is not None:
        if as_json:
            print(collected.to_json(), file=sys.stderr)
        else:
            show(_page(collected), sys.stderr)
    if save is not None:
        collected.save(save)
    return status


def _page(collected: trace) -> str:
    callers = [total for total in collected.totals("file", "line") if total["file"]]
    parts = [str(collected), callers_table(callers[:MOST_CALLERS])]
    return "\n\n".join(parts[: 1 + bool(callers)])


def _status_of(program: Sequence[str], is_module: bool) -> int:
    sys.argv = list(program)
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(program[0]))
    try:
        if is_module:
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return INTERRUPTED
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and nobody_reads():
            return NOBODY_READS
        _print(error)
        return 1
    return 0


def _print(error: BaseException) -> None:
    """Print an error as Python does, without the frames of this file and of runpy."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        inner = inner.tb_next
    # A script that could not even be compiled has no frames of its own.
    sys.excepthook(type(error), error.with_traceback(inner), inner)
