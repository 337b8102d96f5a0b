"""End quietly when the reader of the output has gone, as in ``... demo | head -1``."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import TextIO

__all__ = ["NOBODY_READS", "flushed", "nobody_reads"]

# The status of a process that SIGPIPE has ended, as shells report it.
NOBODY_READS = 141


def nobody_reads() -> bool:
    """Return whether stdout or stderr is a pipe without a reader, and discard its output if so."""
    broken = [file for file in (sys.stdout, sys.stderr) if _is_broken(file)]
    for file in broken:
        # Python would report what is left in its buffer when it ends.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, file.fileno())
        os.close(nothing)
    return bool(broken)


def _is_broken(file: TextIO) -> bool:
    # A file that is not one of the system's has no number, and Windows has no poll.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        poll = select.poll()
        poll.register(file.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def flushed(status: int) -> int:
    """Flush the output and return the status; `NOBODY_READS` if the output has no reader."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        if not nobody_reads():
            raise
        return NOBODY_READS
    return status
