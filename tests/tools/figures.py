"""Draw the figures of the documentation from what the package does.

`--write` puts them into docs/figures. A test compares them with what this gives.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import warnings
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import arraybridge as ab  # noqa: E402
import bridges  # noqa: E402
import numpy as np  # noqa: E402

FOLDER = ROOT / "docs" / "figures"
ORDER = ("numpy", "torch", "tensorflow", "jax", "pyclesperanto")
WIDTH = 760
INK, QUIET, LINE = "#1b2a38", "#5b6b7a", "#c9d3dc"
GREEN, BLUE, AMBER, RED, GREY = "#cfeeda", "#cfe3f8", "#fde5bf", "#f8cdc8", "#eef1f4"
ROUTES = {"keep": GREEN, "share": BLUE, "copy": AMBER, "move": GREY}


class Drawing:
    """An SVG that grows from top to bottom."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.bottom = 0.0

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self.bottom = max(self.bottom, y + height)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
            f'fill="{fill}" stroke="{LINE}"/>'
        )

    def text(self, x: float, y: float, text: str, *, at: str = "start", **style: Any) -> None:
        self.bottom = max(self.bottom, y + 4)
        look = {"fill": INK, "font_size": 13, **style}
        attributes = " ".join(f'{key.replace("_", "-")}="{look[key]}"' for key in look)
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{at}" {attributes}>{escape(text)}</text>'
        )

    def cell(self, x: float, y: float, width: float, text: str, fill: str, note: str = "") -> None:
        """A box with a word in it, and a smaller one below."""
        self.box(x, y, width, 40, fill)
        self.text(x + width / 2, y + (17 if note else 25), text, at="middle")
        if note:
            self.text(x + width / 2, y + 33, note, at="middle", fill=QUIET, font_size=11)

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        angle = math.atan2(to_y - y, to_x - x)
        points = [
            f"{to_x - 9 * math.cos(angle + turn):.1f},{to_y - 9 * math.sin(angle + turn):.1f}"
            for turn in (-0.45, 0.45)
        ]
        self.parts.append(
            f'<path d="M{x:g},{y:g} L{to_x:g},{to_y:g} M{points[0]} L{to_x:g},{to_y:g} '
            f'L{points[1]}" fill="none" stroke="{QUIET}" stroke-width="1.5"/>'
        )

    def svg(self) -> str:
        height = math.ceil(self.bottom + 12)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" role="img" '
                'font-family="system-ui, Helvetica, Arial, sans-serif">',
                f"<title>{escape(self.title)}</title>",
                f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def image() -> np.ndarray:
    return np.arange(64, dtype="float32").reshape(8, 8)


def memory_types() -> str:
    """The class of each framework's arrays, and where their memory can be."""
    drawing = Drawing("The frameworks, the classes of their arrays, and where their memory can be")
    for x, title in (
        (12, "memory type"),
        (172, "an array is a"),
        (452, "host"),
        (602, "accelerator"),
    ):
        drawing.text(x, 24, title, font_weight="bold")
    for row, framework in enumerate(ab.frameworks()):
        y = 38 + 48 * row
        name, memory = framework["name"], framework["memory"]
        drawing.cell(12, y, 140, name, GREY)
        if name in ORDER:
            kind = type(bridges.make(name, image()))
            assert ab.detect_memory_type(bridges.make(name, image())) == name
            drawing.text(172, y + 25, f"{kind.__module__.split('.')[0]} {kind.__name__}")
        else:
            drawing.text(172, y + 25, "needs a GPU: not run for this figure", fill=QUIET)
        for x, place in ((452, "host"), (602, "accelerator")):
            if memory in (place, "either"):
                drawing.cell(x, y, 140, "yes", BLUE)
    return drawing.svg()


def row_of_routes(drawing: Drawing, y: float, name: str, array: Any) -> None:
    """What `explain` says of an array and each target: the route, and how it is taken."""
    drawing.text(12, y + 25, name)
    for column, target in enumerate(ORDER):
        plan = ab.explain(array, target)
        drawing.cell(125 + 125 * column, y, 119, plan.route, ROUTES[plan.route], plan.how)


def routes() -> str:
    """The routes of an image, and of views that not every framework can take."""
    drawing = Drawing("The route of every pair for an image, and for views of it")
    for column, target in enumerate(ORDER):
        drawing.text(184 + 125 * column, 24, f"to {target}", at="middle", fill=QUIET)
    for row, source in enumerate(ORDER):
        row_of_routes(drawing, 36 + 44 * row, source, bridges.make(source, image()))
    x = image()
    views = {"image[::-1]": x[::-1], "image.T": x.T, "image[:, ::2]": x[:, ::2]}
    top = drawing.bottom + 30
    drawing.text(12, top, "views in NumPy", fill=QUIET)
    for row, (name, array) in enumerate(views.items()):
        row_of_routes(drawing, top + 10 + 44 * row, name, array)
    return drawing.svg()


def devices() -> str:
    """Two places, and what a conversion between them is."""
    drawing = Drawing(
        "Where arrays are on a machine without a GPU, and what leads from one to another"
    )
    places: dict[str, list[str]] = {}
    for name in ORDER:
        places.setdefault(ab.explain(image(), name).device, []).append(name)
    host, accelerator = places
    high = 40 + 48 * max(map(len, places.values()))
    for x, place in ((12, host), (528, accelerator)):
        drawing.box(x, 12, 220, high, "white")
        drawing.text(x + 110, 36, place, at="middle", font_weight="bold")
        for row, name in enumerate(places[place]):
            drawing.cell(x + 40, 48 + 48 * row, 140, name, GREY)
    there, back = places[host][0], places[accelerator][0]
    for y, start, end, plan in (
        (high / 2 - 10, 242, 518, ab.explain(image(), back)),
        (high / 2 + 50, 518, 242, ab.explain(bridges.make(back, image()), there)),
    ):
        drawing.arrow(start, y, end, y)
        drawing.text(380, y - 8, f"{plan.how}: {plan.route}", at="middle")
    drawing.text(380, high / 2 + 92, "device= demands a place", at="middle", fill=QUIET)
    return drawing.svg()


def attempts(fits: int) -> tuple[list[int], ab.trace]:
    """The numbers of images in each call of a function with memory for so many of five."""
    calls: list[int] = []

    @ab.torch(split_axis=0, on_oom=("clear", "split", "host"))
    def brighter(images: Any) -> Any:
        calls.append(len(images))
        if len(images) > fits:
            raise MemoryError
        return images + 1

    trace = ab.trace()
    with trace, contextlib.suppress(MemoryError):
        brighter(np.zeros((5, 8, 8), "uint8"))
    return calls, trace


def ladder() -> str:
    """The calls of a function that runs out of memory, by the rung that made them."""
    drawing = Drawing("Each call of a function that runs out of memory, on the rungs of the ladder")
    for x, fits in ((12, 2), (402, 0)):
        calls, trace = attempts(fits)
        whole = f"memory for {fits or 'none'} of 5 images"
        drawing.text(x, 24, whole, font_weight="bold")
        y = made(drawing, x, 38, "call", [calls.pop(0)], fits)
        for rung in (span for span in trace.spans if span.route == "rung"):
            if rung.why and rung.why.startswith("skipped"):
                drawing.text(x, y + 17, rung.how)
                drawing.text(x + 96, y + 17, rung.why, fill=QUIET, font_size=11)
                y += 30
                continue
            count = len(calls) if rung.how == "split" else 1
            y = made(drawing, x, y, rung.how, calls[:count], fits)
            del calls[:count]
        why = next(span.why for span in trace.spans if span.route == "call")
        drawing.text(x, y + 17, "end")
        drawing.box(x + 96, y, 190, 24, RED if why else GREEN)
        drawing.text(x + 191, y + 17, why or "a result of 5 images", at="middle", font_size=11)
    return drawing.svg()


def made(drawing: Drawing, x: float, y: float, name: str, calls: list[int], fits: int) -> float:
    """The calls of one rung, as long as they have images. Return where the next rung goes."""
    drawing.text(x, y + 17, name)
    for count in calls:
        width = 38 * count
        drawing.box(x + 96, y, width, 24, GREEN if count <= fits else RED)
        done = "done" if count <= fits else "out of memory"
        words = f"{count} image{'s' * (count != 1)}: {done}"
        drawing.text(x + 104 + (0 if width > 150 else width), y + 17, words, font_size=11)
        y += 30
    return y


VALUES = (-3.2, 0.5, 1.5, 2.5, 254.6, 300.0)
POLICIES: dict[str, dict[str, str]] = {
    "default": {},
    'scaling="stretch"': {"scaling": "stretch"},
    '"uint16"': {"dtype_conversion": "uint16"},
    '"float32"': {"dtype_conversion": "float32"},
    '"native"': {"dtype_conversion": "native"},
}


def dtype_policy() -> str:
    """What becomes of float results for an image of uint8, by policy."""
    drawing = Drawing(
        "What a function that returns floats for an image of uint8 returns, by policy"
    )
    drawing.text(12, 29, "a function returns", font_weight="bold")
    for column, value in enumerate(VALUES):
        drawing.text(200 + 86 * column, 29, f"{value:g}", at="middle", font_weight="bold")
    for row, (name, policy) in enumerate(POLICIES.items()):
        y = 42 + 46 * row
        declared = ab.numpy(**policy)(lambda _: np.array(VALUES))  # type: ignore[call-overload]
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            results = declared(np.zeros(1, "uint8"))
        drawing.text(12, y + 25, name)
        for column, (value, result) in enumerate(zip(VALUES, results, strict=True)):
            difference = abs(float(result) - value)
            same = difference <= abs(value) * 1e-6
            fill, note = (GREEN, "") if same else (BLUE, "rounded")
            if "stretch" in name:
                fill, note = GREY, "scaled"
            elif difference > 0.5:
                fill, note = AMBER, "clamped"
            drawing.cell(160 + 86 * column, y, 80, f"{result:g}", fill, note)
        drawing.text(160 + 86 * len(VALUES), y + 25, str(results.dtype))
    return drawing.svg()


FIGURES: dict[str, Callable[[], str]] = {
    "memory-types": memory_types, "routes": routes, "devices": devices, "ladder": ladder,
    "dtype-policy": dtype_policy,
}  # fmt: skip


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    bridges.load()
    warnings.simplefilter("ignore", ab.SharedImmutableMemoryWarning)
    write = parser.parse_args().write
    for name, draw in FIGURES.items():
        text = draw()
        if write:
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / f"{name}.svg").write_text(text)
        print(f"{name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
