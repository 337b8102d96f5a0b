"""Show the progress of a command, with tqdm if it is installed, else with one line.

Nothing is shown unless the caller asks for it and stderr is a terminal.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
import time
from typing import Any, TextIO

__all__ = ["Line", "bar", "progress", "show_bytes"]


class Line:
    """The part of tqdm's interface that the commands use, on a line that is written anew."""

    def __init__(
        self,
        *,
        desc: str,
        total: int | None = None,
        file: TextIO,
        disable: bool = False,
        leave: bool = False,
    ) -> None:
        self.desc, self.total, self.file, self.leave = desc, total, file, leave
        self.disable = disable
        self.n = 0
        self._postfix, self._shown = "", ""
        self.refresh()

    def update(self, n: int = 1) -> None:
        self.n += n
        self.refresh()

    def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
        self._postfix = text
        if refresh:
            self.refresh()

    def refresh(self) -> None:
        of = "" if self.total is None else f"/{self.total}"
        self._write(f"{self.desc}: {self.n}{of} {self._postfix}".rstrip())

    def close(self) -> None:
        if self.leave and not self.disable:
            self.file.write("\n")
        else:
            self._write("")
        self.disable = True

    def _write(self, text: str) -> None:
        if not self.disable and text != self._shown:
            blank = " " * (len(self._shown) - len(text))
            self.file.write(f"\r{text}{blank}" + "\r" * (not text))
            self.file.flush()
            self._shown = text

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def bar(desc: str, total: int, unit: str) -> Any:
    """A bar of tqdm, or a ``Line`` that is shown on a terminal only."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("tqdm.auto").tqdm(desc=desc, total=total, unit=unit)
    return Line(desc=desc, total=total, file=sys.stderr, disable=not sys.stderr.isatty())


def size(count: float) -> str:
    """Return a number of bytes as text: ``2.5 MB``."""
    power = min(int(math.log(max(count, 1), 1000)), 4)
    unit = ("B", "kB", "MB", "GB", "TB")[power]
    return f"{count / 1000**power:.{1 if power else 0}f} {unit}"


def show_bytes(bar: Any, done: int, total: int) -> None:
    """Show on a bar how many bytes are done, how many a second, and how long the others take.

    A bar that cannot show text shows nothing.
    """
    show = getattr(bar, "set_postfix_str", None)
    if show is None:
        return
    text = f"{size(done)}/{size(total)}"
    # Bars of other classes need not take new attributes.
    with contextlib.suppress(AttributeError):
        now = time.monotonic()
        before, when = getattr(bar, "_arraybridge_start", (None, now))
        if before is None:
            # Nothing is known of the rate before the first step has ended.
            bar._arraybridge_start = (done, now)
        elif now > when and done > before:
            rate = (done - before) / (now - when)
            text += f", {size(rate)}/s, {(total - done) / rate:.0f} s left"
    show(text, refresh=False)


def progress(desc: str, total: int | None = None, show: bool = False) -> Any:
    """A bar of tqdm, or a ``Line``. It leaves nothing behind when it is closed."""
    disable = not show or not sys.stderr.isatty()
    make: Any = Line
    if not disable:
        with contextlib.suppress(ImportError):
            make = importlib.import_module("tqdm").tqdm
    return make(desc=desc, total=total, file=sys.stderr, disable=disable, leave=False)
