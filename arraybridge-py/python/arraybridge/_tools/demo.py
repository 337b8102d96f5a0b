"""Convert an image to every installed framework and back, and show the conversions."""

from __future__ import annotations

import numpy
from arraybridge import (
    FrameworkNotInstalledError,
    MemoryConversionError,
    convert,
    explain,
    frameworks,
    trace,
)

from .page import table
from .terminal import show

__all__ = ["run"]

TITLE = "An image of uint16, 256 x 256, to each framework and back"
HEAD = ("framework", "there", "back", "values")
EQUAL, DIFFERENT = "every bit equal", "DIFFERENT"


def image() -> numpy.ndarray:
    """Cells on a noisy background, uint16."""
    random = numpy.random.default_rng(0)
    made = random.integers(100, 200, (256, 256), dtype="uint16")
    for y, x in random.integers(0, 240, (20, 2)):
        made[y : y + 16, x : x + 16] += 3000
    return made


def round_trip(name: str, known: numpy.ndarray) -> tuple[str, ...]:
    """The row of a framework: the routes there and back, and whether the values are equal."""
    there = convert(known, name)
    back = convert(there, "numpy")
    same = back.dtype == known.dtype and bool((back == known).all())
    routes = (explain(known, name).route, explain(there, "numpy").route)
    return (name, *routes, EQUAL if same else DIFFERENT)


def run() -> int:
    """Print the routes and the trace. Return 1 if a value differs, otherwise 0."""
    known, rows = image(), [HEAD]
    whole = trace()
    for framework in frameworks():
        name = framework["name"]
        try:
            # The first conversion imports the framework, which would be most of the time.
            convert(known, name)
            with trace() as records:
                rows.append(round_trip(name, known))
            whole.records += records
        except FrameworkNotInstalledError:
            rows.append((name, "", "", f"not installed (pip install {framework['install']})"))
        except MemoryConversionError as error:
            rows.append((name, "", "", error.reason))
    show(f"{TITLE}\n\n{table(rows)}\n\n{whole}")
    return int(any(row[-1] == DIFFERENT for row in rows))
