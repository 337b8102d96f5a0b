"""Print reports in colours, if Rich is installed and the output is a terminal."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, TextIO

__all__ = ["coloured", "show"]

STYLES = {
    "green": r"\b(works|keep|share|passed|No fault|All \d+ checks passed|every bit equal)\b",
    "yellow": r"\b(NOTE|note|copy|not installed|no device)\b",
    "bold red": r"\b(FAULT|FAILED|BROKEN|DIFFERENT|failed|[1-9]\d* faults?)\b",
    "dim": r"\(\d+\)",
}


def coloured(text: str) -> Any:
    """The text as one of Rich, with its words in colours."""
    found = importlib.import_module("rich.text").Text(text)
    for style, words in STYLES.items():
        found.highlight_regex(words, style)
    found.highlight_regex(r"\A(conversion|name|group) .*", "bold")
    return found


def show(text: str, file: TextIO | None = None) -> None:
    """Print a report to stdout, or to another file. Nobody gets it if stdout is closed."""
    file = file or sys.stdout
    if file is None:
        return
    if file.isatty():
        with contextlib.suppress(ImportError):
            console = importlib.import_module("rich.console").Console(file=file)
            # A report has lines of its own length.
            console.print(coloured(text), soft_wrap=True)
            return
    print(text, file=file)
