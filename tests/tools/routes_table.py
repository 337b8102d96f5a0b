"""Make the README's table of routes from what `explain` says about real arrays.

`--write` puts it into README.md. Otherwise it is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import arraybridge as ab  # noqa: E402
import bridges  # noqa: E402
import numpy as np  # noqa: E402

BEGIN = "<!-- routes: written by tests/tools/routes_table.py, checked by test_docs.py -->"
END = "<!-- /routes -->"
ORDER = ("numpy", "torch", "jax", "tensorflow", "pyclesperanto")


def route(source: str, target: str) -> str:
    """One cell: the route, its direction, and the number of its note below the table."""
    image = np.arange(64, dtype="float32").reshape(8, 8)
    x = bridges.make(source, image)
    planned = ab.explain(x, target).route
    if planned == "copy" and target == "pyclesperanto":
        return "upload"
    if planned == "copy" and source == "pyclesperanto":
        return "download"
    if planned == "share" and target == "numpy" and not ab.convert(x, "numpy").flags.writeable:
        return "share (3)"
    if planned == "share" and target in ("jax", "tensorflow") and source == "torch":
        return "share (1)"
    if planned == "share" and target == "torch" and source in ("jax", "tensorflow"):
        return "share (2)"
    return planned


def table() -> str:
    """The table in Markdown. CuPy's routes come from its table, since no test has run CuPy."""
    lines = ["| | " + " | ".join(ORDER) + " | cupy |", "|---" * (len(ORDER) + 2) + "|"]
    for source in ORDER:
        cells = [route(source, target) for target in ORDER]
        lines.append(f"| {source} | " + " | ".join(cells) + " | upload |")
    lines.append("| cupy | " + " | ".join(["download"] * len(ORDER)) + " | keep |")
    return "\n".join(lines)


def written(text: str, new: str) -> str:
    """The README with a new table between the marks."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{new}\n{END}{tail}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    bridges.load()
    if parser.parse_args().write:
        readme = ROOT / "README.md"
        readme.write_text(written(readme.read_text(), table()))
    else:
        print(table())


if __name__ == "__main__":
    main()
