"""The table of dimensions in docs/conformance.md, and what the documentation says of refusals."""

from __future__ import annotations

import re
from pathlib import Path

import arraybridge
import program

DOCS = program.HERE.parent.parent / "docs"
PAGE = DOCS / "conformance.md"
BEGIN = "<!-- crossings: written by python tests/crossings/crossings.py --write -->"
END = "<!-- /crossings -->"


def section() -> str:
    """Return the section of the page about the crossings."""
    lines = [
        BEGIN,
        "## Crossings",
        "",
        "Faults are where two features meet. `tests/crossings` writes a program for each row of a",
        "covering array, in which every two of these values meet, and judges it by NumPy alone:",
        "the values, dtypes and frameworks of results, the objects that they are in, and the",
        "caller's arrays after the call. The first value of each dimension is the plain one. A",
        "refusal is right if the documentation says so: `rules.toml` has the sentences.",
        "",
        "| dimension | what it is | values |",
        "|---|---|---|",
    ]
    for name, table in program.TABLE.items():
        lines.append(f"| {name} | {table['about']} | {', '.join(table['values'])} |")
    return "\n".join([*lines, END, ""])


def of(text: str) -> str:
    """Return the section in the text of the page, or nothing."""
    found = re.search(re.escape(BEGIN) + ".*?" + re.escape(END) + "\n", text, re.DOTALL)
    return found[0] if found else ""


def write() -> None:
    """Put the section into the page, before the wrong results."""
    text = PAGE.read_text()
    without = text.replace(of(text) + "\n", "") if of(text) else text
    before, heading, after = without.partition("## Wrong results\n")
    PAGE.write_text(f"{before}{section()}\n{heading}{after}")


def says(page: str, words: str) -> bool:
    """Whether a page or a docstring has some words, in lines of any length."""
    name = page.removeprefix("arraybridge.")
    text = getattr(arraybridge, name).__doc__ if name != page else Path(DOCS / page).read_text()
    return " ".join(words.split()) in " ".join(text.split())
