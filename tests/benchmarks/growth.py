"""Count the instructions per item of calls with many items, which must not grow with their number.

Each call is counted under callgrind with 100 items, with 1,000 and so on, as instructions.py counts
the main paths, and without Python's garbage collector. This needs valgrind with its headers, and a
C compiler.

    python tests/benchmarks/growth.py
    python tests/benchmarks/growth.py --only claims lists --largest 10000

It ends with status 1 if a call takes more than --most times as many instructions per item as with
100 items.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import instructions

SIZES = (100, 1_000, 10_000, 100_000)

CODE = """
import ctypes, gc, json, sys
counter, cases = ctypes.CDLL(sys.argv[1]), json.loads(sys.argv[2])
import bridges
bridges.load(*{frameworks})
import numpy as np, arraybridge as ab
{setup}
gc.disable()
for name, (setup, call, sizes) in cases.items():
    for n in sizes:
        scope = dict(globals(), n=n)
        exec(f"{{setup}}\\ndef call():\\n    {{call}}\\n", scope)
        scope["call"]()
        scope["call"]()
        counter.on()
        scope["call"]()
        counter.off(f"{{name}} {{n}}".encode())
"""


class Group(NamedTuple):
    """Calls with `n` items that are counted in one process: how they are set up, and the call."""

    frameworks: tuple[str, ...]
    setup: str
    calls: dict[str, tuple[str, str]]
    most: int = SIZES[-1]


ROWS = "rows = list(np.ones((n, 4), 'f4'))"
GROUPS = {
    "lists": Group(
        ("numpy", "torch"),
        "import torch",
        {
            "list of arrays, kept": (f"{ROWS}; f = ab.numpy(lambda x: None)", "f(rows)"),
            "list of arrays, converted": (f"{ROWS}; f = ab.torch(lambda x: None)", "f(rows)"),
            "each array twice": (f"{ROWS}; f = ab.torch(lambda x: None)", "f(rows + rows)"),
            "list of buffers": (
                "import array; rows = [array.array('f', [1]) for _ in range(n)];"
                "f = ab.numpy(lambda x: None)", "f(rows)",
            ),
            "list of numbers": ("f = ab.torch(lambda x: None); rows = list(range(n))", "f(rows)"),
            "convert_tree, a list": (ROWS, "ab.convert_tree(rows, 'torch')"),
            "convert_tree, dicts of two": (
                f"{ROWS}; tree = [{{'a': a, 'b': b}} for a, b in zip(rows[::2], rows[1::2])]",
                "ab.convert_tree(tree, 'torch')",
            ),
            "results that live": (ROWS, "return [ab.convert(row, 'torch') for row in rows]"),
        },
    ),
    "parts": Group(
        ("numpy", "torch"),
        "import torch",
        {
            "slices of numpy": (
                "x = np.ones((n, 4, 4), 'f4'); f = ab.numpy(lambda x: x, slice_by_slice=True)",
                "f(x)",
            ),
            "slices of torch": (
                "x = torch.ones(n, 4, 4); f = ab.torch(lambda x: x, slice_by_slice=True)", "f(x)"
            ),
            "stack_slices": (
                "rows = list(np.ones((n, 4, 4), 'f4'))", "ab.stack_slices(rows, 'numpy')"
            ),
            "unstack_slices": ("x = np.ones((n, 4, 4), 'f4')", "ab.unstack_slices(x, 'numpy')"),
            "tiles": (
                "x = np.ones((8, 8 * n), 'f4'); f = ab.numpy(lambda x: x, tiles=(8, 8))", "f(x)"
            ),
        },
        10_000,
    ),
    "definitions": Group(
        ("numpy",),
        "x = np.ones(4, 'f4')",
        {
            "functions in turn": (
                "fs = [ab.numpy(lambda x: x) for _ in range(n)]", "[f(x) for f in fs]"
            ),
            "classes in turn": (
                "objects = [x.view(type('C', (np.ndarray,), {})) for _ in range(n)]",
                "[ab.detect_memory_type(o) for o in objects]",
            ),
        },
        10_000,
    ),
    "claims": Group(
        ("numpy",),
        f"functions = bridges.extension({instructions.FUNCTIONS!r}, 'release', build=False)",
        {
            "arrays read": (ROWS, "functions.total_of_all(rows)"),
            "arrays written": (ROWS, "functions.add_to_all(rows)"),
            "columns written": (
                "columns = list(np.ones((100, n), 'f4').T)", "functions.add_to_all(columns)"
            ),
            "arrays of another package's": (ROWS, "functions.total_of_all_by_hand(rows)"),
        },
        10_000,
    ),
}  # fmt: skip


def growth(group: Group, folder: Path, largest: int) -> dict[str, dict[int, float]]:
    """The instructions per item of each call, by the number of items."""
    sizes = [size for size in SIZES if size <= min(group.most, largest)]
    cases = {name: (*call, sizes) for name, call in group.calls.items()}
    code = CODE.format(frameworks=group.frameworks, setup=group.setup)
    found, errors = instructions.run(code, folder, cases)
    if len(found) != len(cases) * len(sizes):
        raise SystemExit(f"{', '.join(cases)}: not counted\n{errors[-2000:]}")
    return {name: {size: found[f"{name} {size}"] / size for size in sizes} for name in cases}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--most", type=float, default=1.3, help="1.3 allows 30 %% more per item")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="the most items")
    options = parser.parse_args()
    if "claims" in options.only:
        instructions.bridges.built(instructions.FUNCTIONS, "release")
    print(f"| instructions per item | {' | '.join(f'{size:,}' for size in SIZES)} | growth |")
    print("|---" * (len(SIZES) + 2) + "|")
    grown = []
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            counts = growth(GROUPS[name], Path(folder), options.largest)
        for call, found in counts.items():
            most = max(found.values()) / found[SIZES[0]]
            cells = [f"{found[size]:,.0f}" if size in found else "" for size in SIZES]
            print(f"| {call} | {' | '.join(cells)} | {most:.2f} |", flush=True)
            if most > options.most:
                grown.append(call)
    if grown:
        print(f"\nmore per item than {options.most} times as many: {', '.join(grown)}")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
