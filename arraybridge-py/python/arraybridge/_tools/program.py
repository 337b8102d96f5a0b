"""Run a program with a trace around it, as ``python -m arraybridge trace`` does."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader

from arraybridge import trace

from .page import callers_table
from .pipe import NOBODY_READS, flushed, nobody_reads
from .terminal import show

__all__ = ["run"]

MOST_CALLERS = 10
INTERRUPTED = 130
# Python's own status for a script that it cannot open.
NOT_OPENED = 2


def run(program: Sequence[str], kind: str, save: str | None, as_json: bool) -> int:
    """Run a program with its arguments, and print the report to stderr.

    ``kind`` is "m" for a module, "c" for code, and empty for a script. Return the exit status of
    the program.
    """
    try:
        # Python runs the `__main__` of a folder too.
        if not kind and not os.path.isdir(program[0]):
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
        status = _status_of(program, kind)
    status = flushed(status)
    # Without a file, both would print to stdout.
    if sys.stderr is not None:
        if as_json:
            print(collected.to_json(), file=sys.stderr)
        else:
            callers = [total for total in collected.totals("file", "line") if total["file"]]
            parts = [str(collected)]
            parts += [callers_table(callers[:MOST_CALLERS])] if callers else []
            show("\n\n".join(parts), sys.stderr)
    if save is not None:
        try:
            collected.save(save)
        except OSError as error:
            print(f"arraybridge trace: cannot write {save}: {error.strerror}", file=sys.stderr)
            return status or NOT_OPENED
    return status


class _Code(InspectLoader):
    """Loads a module whose source is given."""

    def __init__(self, source: str) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:
        return self.source


def _status_of(program: Sequence[str], kind: str) -> int:
    sys.argv = ["-c", *program[1:]] if kind == "c" else list(program)
    sys.path[0] = os.getcwd() if kind else os.path.dirname(os.path.abspath(program[0]))
    try:
        if kind == "c":
            loader = _Code(program[0])
            spec = spec_from_loader("__main__", loader)
            assert spec is not None
            sys.modules["__main__"] = main = module_from_spec(spec)
            loader.exec_module(main)
        elif kind == "m":
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
    """Print an error as Python does, without the frames of this file, of runpy and of importlib."""
    inner = error.__traceback__
    while inner is not None:
        module = inner.tb_frame.f_globals.get("__name__", "")
        if module != __name__ and module.partition(".")[0] not in ("runpy", "importlib"):
            break
        inner = inner.tb_next
    # A script that could not even be compiled has no frames of its own.
    sys.excepthook(type(error), error.with_traceback(inner), inner)
