"""Three functions, written with arraybridge and with three other ways to write extensions.

Each is called with what users bring, and the outcome is noted: the right values, an error, or
neither. Then the calls take turns and are timed. `--write` puts the tables into docs/extensions.md.

    make authors
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs" / "extensions.md"
BUILD = ROOT / "build" / "authors"
sys.path[:0] = [str(ROOT / "tests" / "python"), str(HERE.parent)]

import bridges  # noqa: E402
import numpy as np  # noqa: E402
from measure import batch  # noqa: E402

NAMES = ("arraybridge", "PyO3 and rust-numpy", "nanobind", "TVM FFI")
BATCH_NS = 2e6


def compiled(source: str, target: str, *options: str) -> Path:
    """Compile a C++ file, if it is newer than what was made of it."""
    path, made = HERE / source, BUILD / target
    if not made.exists() or made.stat().st_mtime < path.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-std=c++17", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden"]
        subprocess.run(["g++", *flags, *options, str(path), "-o", str(made)], check=True)
    return made


def with_nanobind() -> Any:
    nanobind = importlib.import_module("nanobind")
    folder = Path(nanobind.__file__).parent
    includes = [nanobind.include_dir(), folder / "ext" / "robin_map" / "include"]
    includes.append(Path(sysconfig.get_path("include")))
    made = compiled(
        "with_nanobind.cpp",
        f"with_nanobind{sysconfig.get_config_var('EXT_SUFFIX')}",
        *(f"-I{include}" for include in includes),
        str(folder / "src" / "nb_combined.cpp"),
    )
    sys.path.insert(0, str(made.parent))
    return importlib.import_module("with_nanobind")


def with_tvm_ffi() -> Any:
    tvm_ffi = importlib.import_module("tvm_ffi")
    include, library = tvm_ffi.libinfo.find_include_path(), Path(tvm_ffi.libinfo.find_libtvm_ffi())
    made = compiled(
        "with_tvm_ffi.cpp",
        "with_tvm_ffi.so",
        f"-I{include}",
        f"-L{library.parent}",
        "-ltvm_ffi",
        f"-Wl,-rpath,{library.parent}",
    )
    return tvm_ffi.load_module(str(made))


def modules() -> dict[str, Any]:
    """The functions by each way."""
    ours = bridges.extension("tests/benchmarks/functions", "release")
    return {
        "arraybridge": SimpleNamespace(
            total=ours.total, doubled=ours.doubled_for_the_caller, add_to=ours.add_to
        ),
        "PyO3 and rust-numpy": SimpleNamespace(
            total=ours.total_by_hand, doubled=ours.doubled_by_hand, add_to=ours.add_to_by_hand
        ),
        "nanobind": with_nanobind(),
        "TVM FFI": with_tvm_ffi(),
    }


def image() -> np.ndarray:
    return np.arange(12, dtype="float32").reshape(3, 4)


def outcome(call: Callable[[], str]) -> str:
    try:
        return call()
    except Exception as error:
        return f"refused ({type(error).__name__})"


def summed(functions: Any, array: Any, expected: float = 66.0) -> str:
    found = float(functions.total(array))
    return "right" if found == expected else f"**wrong**: {found} for {expected}"


def given_back(functions: Any, array: Any) -> str:
    result = functions.doubled(array)
    same = type(result) is type(array)
    assert np.array_equal(np.asarray(result), np.asarray(array) * 2)
    return "the caller's" if same else f"{type(result).__module__.split('.')[0]}'s"


def read_only(functions: Any) -> str:
    out = np.broadcast_to(np.zeros(4, "float32"), (3, 4))
    functions.add_to(image(), out)
    return "**writes to it**" if out.any() else "unchanged"


def immutable(functions: Any) -> str:
    jax = importlib.import_module("jax")
    out = jax.numpy.zeros((3, 4), "float32")
    before = np.array(out)
    functions.add_to(image(), out)
    return "unchanged" if np.array_equal(np.asarray(out), before) else "**writes to it**"


def aliased(functions: Any) -> str:
    rows = np.ones((4, 4), "float32")
    functions.add_to(rows[:-1], rows[1:])
    return "reads what it writes"


def recorded(functions: Any) -> str:
    torch = importlib.import_module("torch")
    tensor = torch.ones(3, 4, requires_grad=True)
    with warnings.catch_warnings(record=True, action="always") as warned:
        result = functions.doubled(tensor)
    if getattr(result, "requires_grad", False):
        return "kept"
    return "lost, with a warning" if warned else "**lost without a word**"


def probes() -> dict[str, Callable[[Any], str]]:
    def made(name: str) -> Any:
        return bridges.make(name, image())

    found: dict[str, Callable[[Any], str]] = {}
    for name in ("numpy", "torch", "jax", "tensorflow"):
        title = bridges.TITLES[name]
        found[f"a {title} array to a number"] = lambda f, n=name: summed(f, made(n))
    for name in ("numpy", "torch", "jax", "tensorflow"):
        title = bridges.TITLES[name]
        found[f"the array that it returns for one of {title}"] = lambda f, n=name: given_back(
            f, made(n)
        )
    found |= {
        "a transposed array": lambda f: summed(f, image().T),
        "an array in reverse": lambda f: summed(f, image()[::-1, ::-1]),
        "a read-only array to read": lambda f: summed(f, np.broadcast_to(np.float32(1), (2, 3)), 6),
        "bytes in the other order": lambda f: summed(f, image().astype(">f4")),
        "an array of float64": lambda f: summed(f, image().astype("float64")),
        "an array of three axes": lambda f: summed(f, image()[None]),
        "a list of lists": lambda f: summed(f, image().tolist()),
        "a tensor that requires a gradient": recorded,
        "a read-only NumPy array to write to": read_only,
        "an array of JAX to write to": immutable,
        "an array to write to that overlaps the one to read": aliased,
    }
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def behaviour(ways: dict[str, Any]) -> str:
    rows = [
        [title, *(outcome(functools.partial(probe, ways[name])) for name in NAMES)]
        for title, probe in probes().items()
    ]
    return table(["called with", *NAMES], rows)


def calls(ways: dict[str, Any]) -> dict[str, dict[str, Callable[[], object]]]:
    """The calls that are timed: those that give the right result."""
    torch = importlib.import_module("torch")
    array, out = np.ones((16, 16), "float32"), np.zeros((16, 16), "float32")
    tensor = torch.ones(16, 16)
    cases = {
        "a NumPy array to a number": lambda f: f.total(array),
        "a torch tensor to a number": lambda f: f.total(tensor),
        "a NumPy array to an array": lambda f: f.doubled(array),
        "a torch tensor to an array": lambda f: f.doubled(tensor),
        "a NumPy array added to another": lambda f: f.add_to(array, out),
    }
    found: dict[str, dict[str, Callable[[], object]]] = {}
    for title, case in cases.items():
        found[title] = {}
        for name in NAMES:
            call = functools.partial(case, ways[name])
            try:
                result = call()
            except Exception:
                continue
            right = {"number": 256.0, "array": array * 2}.get(title.split()[-1])
            assert right is None or np.array_equal(np.asarray(result), right), (title, name)
            found[title][name] = call
    return found


def times(
    cases: dict[str, dict[str, Callable[[], object]]],
    rounds: int,
    names: tuple[str, ...] = NAMES,
    each: int = 1,
) -> str:
    """A table of calls that take turns. A program makes several (`each`)."""
    rows = []
    for title, timed in cases.items():
        number = max(1, int(BATCH_NS / max(batch(timed[names[0]], 100 // each), 1)))
        found: dict[str, list[float]] = {name: [] for name in timed}
        gc.collect()
        for turn in range(rounds):
            for name in timed if turn % 2 else reversed(timed):
                found[name].append(batch(timed[name], number))
        ours = found[names[0]]
        cells = []
        for name in names:
            if name not in found:
                cells.append("refused" if names is NAMES else "")
                continue
            ratios = [one / base for one, base in zip(found[name], ours, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            ns = statistics.median(found[name]) / each
            spread = "" if name == names[0] else f", {middle:.2f} ({low:.2f} to {high:.2f})"
            cells.append(f"{ns:.0f} ns{spread}")
        rows.append([title, *cells])
    return table(["16 x 16 float32", *names], rows)


ALONE = """
import json, sys
import bridges, measure, numpy as np
functions = bridges.extension("tests/benchmarks/functions", "release", build=False)
array, out = np.ones((16, 16), "float32"), np.zeros((16, 16), "float32")
names = (name + sys.argv[1] for name in ("total", "doubled", "add_to"))
total, doubled, add_to = (getattr(functions, name) for name in names)
calls = lambda: total(array), lambda: doubled(array), lambda: add_to(array, out)
assert total(array) == 256 and np.array_equal(doubled(array), array * 2)
print(json.dumps([measure.median_ns(call, 40) for call in calls]))
"""


def alone(suffix: str) -> list[float]:
    """The times of functions of NumPy arrays in a process that calls no others."""
    path = os.pathsep.join([str(ROOT / "tests" / "python"), str(HERE.parent)])
    command = [sys.executable, "-c", ALONE, suffix]
    environment = {**os.environ, "PYTHONPATH": path}
    return json.loads(
        subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    )


def times_alone(rounds: int) -> str:
    """Ours and those of rust-numpy, each with its own check of borrows, in processes by turns."""
    pairs = [(alone(""), alone("_by_hand")) for _ in range(rounds)]
    rows = []
    for index, title in enumerate(("to a number", "to an array", "added to another")):
        ours, theirs = ([one[index] for one in times] for times in zip(*pairs, strict=True))
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        found = [f"{statistics.median(times):.0f} ns" for times in (ours, theirs)]
        rows.append([f"a NumPy array {title}", *found, f"{middle:.2f} ({low:.2f} to {high:.2f})"])
    return table(["16 x 16 float32", *NAMES[:2], "ratio"], rows)


def versions() -> str:
    names = {"nanobind": "nanobind", "apache-tvm-ffi": "TVM FFI", "jax-tvm-ffi": "jax-tvm-ffi"}
    installed = {title: importlib.metadata.version(name) for name, title in names.items()}
    frameworks = ("numpy", "torch", "jax", "tensorflow")
    installed |= {bridges.TITLES[name]: sys.modules[name].__version__ for name in frameworks}
    manifest = (HERE.parent / "functions" / "Cargo.toml").read_text()
    crates = re.findall(r'^(numpy|pyo3) = "([\d.]+)"', manifest, re.MULTILINE)
    rust = {{"numpy": "rust-numpy", "pyo3": "PyO3"}[name]: version for name, version in crates}
    every = ", ".join(f"{name} {version}" for name, version in (rust | installed).items())
    return f"CPython {platform.python_version()}, {every}.\n"


def write(blocks: dict[str, str]) -> None:
    text = PAGE.read_text()
    for name, block in blocks.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = text.split(start)
        text = before + start + block + end + rest.split(end)[1]
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    bridges.load("numpy", "torch", "jax", "tensorflow")
    ways = modules()
    import programs

    blocks = {
        "versions": versions(),
        "behaviour": behaviour(ways),
        "times": times(calls(ways), options.rounds),
        "programs": times(programs.programs(ways), options.rounds, programs.NAMES, programs.CALLS),
        "alone": times_alone(9),
    }
    print("\n".join(blocks.values()))
    if options.write:
        write(blocks)


if __name__ == "__main__":
    main()
