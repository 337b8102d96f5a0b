"""Count the instructions of the main paths. Unlike times, counts repeat on a busy machine.

Each group of calls runs in one process under callgrind. A call is made a few hundred times before
the count starts, to fill every cache; the cost of the loop around it is subtracted. This needs
valgrind with its headers, and a C compiler.

    python tests/benchmarks/instructions.py > docs/instructions.md
    python tests/benchmarks/instructions.py --compare docs/instructions.md
    python tests/benchmarks/instructions.py --only numpy functions

A comparison ends with status 1 if a call has become slower than --tolerance allows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1] / "python"
sys.path.insert(0, str(TESTS))
import bridges  # noqa: E402

# What happens once, such as a collection of all garbage, is in one round. The smallest one counts.
CALLS, ROUNDS = 500, 4
WARM_UP = 300
# One call took 12 % more in all rounds of one process, and never again; the cause is not known. So
# a call that seems slower is counted in other processes too, and the smallest count is kept.
PROCESSES = 3
FUNCTIONS = "tests/benchmarks/functions"

# Callgrind is switched on and off by macros, so it takes a C compiler.
COUNTER = """
#include <valgrind/callgrind.h>
void on(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void off(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""

CODE = """
import ctypes, json, sys
counter, calls = ctypes.CDLL(sys.argv[1]), json.loads(sys.argv[2])
import bridges
bridges.load(*{frameworks})
import numpy as np, arraybridge as ab
x = np.ones((16, 16), "float32")
{setup}
for name, call in calls.items():
    scope = dict(globals())
    exec("def loop(n):\\n    convert, detect = ab.convert, ab.detect_memory_type\\n"
         f"    for _ in range(n):\\n        {{call}}\\n", scope)
    scope["loop"]({warm_up})
    for _ in range({rounds}):
        counter.on()
        scope["loop"]({calls})
        counter.off(name.encode())
"""
LOOP = "the loop"


class Group(NamedTuple):
    """Calls that are counted in one process, by name: ours, and the same by hand or nothing."""

    frameworks: tuple[str, ...]
    setup: str
    calls: dict[str, tuple[str, str]]


GROUPS = {
    "numpy": Group(
        ("numpy",),
        "declared = ab.numpy(lambda x: x); slices = [x] * 8; stack = np.ones((64, 16, 16), 'f4')",
        {
            "detect_memory_type": ("detect(x)", ""),
            "numpy -> numpy, kept": ("convert(x, 'numpy')", ""),
            "numpy -> numpy, copy": ("convert(x, 'numpy', copy=True)", "x.copy()"),
            "numpy -> numpy, uint16": (
                "convert(x, 'numpy', dtype='uint16')",
                "np.clip(np.rint(x), 0, 65535).astype('uint16')",
            ),
            "explain, numpy -> numpy": ("ab.explain(x, 'numpy')", ""),
            "stack_slices, 8 of numpy": ("ab.stack_slices(slices, 'numpy')", "np.stack(slices)"),
            "unstack_slices, 64 of numpy": ("ab.unstack_slices(stack, 'numpy')", "list(stack)"),
            "@numpy, arguments fit": ("declared(x)", ""),
        },
    ),
    "torch": Group(
        ("numpy", "torch"),
        "import torch; t = torch.ones(16, 16); declared = ab.torch(lambda x: x);"
        "stack = torch.ones(64, 16, 16); slices = list(stack[:8])",
        {
            "numpy -> torch": ("convert(x, 'torch')", "torch.from_numpy(x)"),
            "torch -> numpy": ("convert(t, 'numpy')", "t.numpy()"),
            "torch -> numpy, copy": ("convert(t, 'numpy', copy=True)", "t.numpy().copy()"),
            "stack_slices, 8 of torch": ("ab.stack_slices(slices, 'torch')", "torch.stack(slices)"),
            "unstack_slices, 64 of torch": ("ab.unstack_slices(stack, 'torch')", "stack.unbind(0)"),
            "@torch, arguments fit": ("declared(t)", ""),
            "@torch, argument of numpy": ("declared(x)", ""),
        },
    ),
    "jax": Group(
        ("numpy", "torch", "jax"),
        "import torch, jax.numpy as jnp; j = jnp.ones((16, 16)); t = torch.ones(16, 16)",
        {
            "numpy -> jax": ("convert(x, 'jax')", ""),
            "jax -> numpy": ("convert(j, 'numpy')", "np.asarray(j)"),
            "torch -> jax": ("convert(t, 'jax')", ""),
            "jax -> torch": ("convert(j, 'torch', copy=False)", "torch.from_dlpack(j)"),
        },
    ),
    "tensorflow": Group(
        ("numpy", "torch", "tensorflow"),
        "import torch, tensorflow as tf; f = tf.ones((16, 16)); t = torch.ones(16, 16);"
        "to, by = tf.experimental.dlpack, torch.utils.dlpack; stack = tf.ones((64, 16, 16))",
        {
            "numpy -> tensorflow": ("convert(x, 'tensorflow')", "tf.constant(x)"),
            "tensorflow -> numpy": ("convert(f, 'numpy')", "np.asarray(f)"),
            "torch -> tensorflow": ("convert(t, 'tensorflow')", "to.from_dlpack(by.to_dlpack(t))"),
            "tensorflow -> torch": (
                "convert(f, 'torch', copy=False)", "torch.from_dlpack(to.to_dlpack(f))"
            ),
            "unstack_slices, 64 of tensorflow": (
                "ab.unstack_slices(stack, 'tensorflow')", "tf.unstack(stack)"
            ),
        },
    ),
    "pyclesperanto": Group(
        ("numpy", "pyclesperanto"),
        "import pyclesperanto as cle; c = cle.push(x)",
        {
            "numpy -> pyclesperanto": ("convert(x, 'pyclesperanto')", "cle.push(x)"),
            "pyclesperanto -> numpy": ("convert(c, 'numpy')", "c.get()"),
        },
    ),
    "functions": Group(
        ("numpy",),
        f"functions = bridges.extension({FUNCTIONS!r}, 'release', build=False); out = x.copy()",
        {
            "Rust function, array to number": ("functions.total(x)", "functions.total_by_hand(x)"),
            "Rust function, array to array": (
                "functions.doubled(x)", "functions.doubled_by_hand(x)"
            ),
            "Rust function, in place": (
                "functions.add_to(x, out)", "functions.add_to_by_hand(x, out)"
            ),
        },
    ),
}  # fmt: skip


def counter(folder: Path) -> Path:
    """The library that switches the counting on and off."""
    library = folder / "counter.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=COUNTER, text=True, check=True)
    return library


def dumped(folder: Path) -> dict[str, int]:
    """The fewest instructions in callgrind's dumps by the names they were dumped at."""
    found = {}
    for dump in folder.glob("callgrind.out.*"):
        text = dump.read_text()
        trigger = re.search(r"Trigger: Client Request: (.+)", text)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if trigger and total:
            name, instructions = trigger[1], int(total[1])
            found[name] = min(instructions, found.get(name, instructions))
    return found


def run(code: str, folder: Path, cases: object) -> tuple[dict[str, int], str]:
    """The instructions that a program counts by name, and what it wrote to stderr.

    Its arguments are the library that switches the counting on and off, and the cases as JSON.
    """
    out = folder / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    command += [sys.executable, "-c", code, str(counter(folder)), json.dumps(cases)]
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment |= {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return dumped(folder) if done.returncode == 0 else {}, done.stderr


def count(group: Group) -> dict[str, tuple[int, int | None]]:
    """The instructions of each of our calls, and of the same by hand."""
    calls = {LOOP: "pass"}
    for name, (ours, by_hand) in group.calls.items():
        calls |= {name: ours} | ({f"{name}, by hand": by_hand} if by_hand else {})
    code = CODE.format(
        frameworks=group.frameworks, setup=group.setup, warm_up=WARM_UP, calls=CALLS, rounds=ROUNDS
    )
    with tempfile.TemporaryDirectory() as folder:
        found, errors = run(code, Path(folder), calls)
    if found.keys() != calls.keys():
        raise SystemExit(f"{', '.join(group.calls)}: not counted\n{errors[-2000:]}")

    per_call = {name: round((total - found[LOOP]) / CALLS) for name, total in found.items()}
    return {name: (per_call[name], per_call.get(f"{name}, by hand")) for name in group.calls}


def read(table: str) -> dict[str, int]:
    """The counts of our calls in a table that this program printed."""
    rows = re.findall(r"^\| (.+?) \| (\d+) \|", table, re.M)
    return {name: int(number) for name, number in rows}


def over(
    counts: dict[str, tuple[int, int | None]], before: dict[str, int], tolerance: float
) -> list[str]:
    """The calls that take more than was counted before, by more than the tolerance."""
    return [
        name
        for name, (ours, _) in counts.items()
        if name in before and ours > before[name] * (1 + tolerance)
    ]


def versions() -> str:
    """What the counts depend on beside this repository."""
    found = [f"Python {platform.python_version()}"]
    for package in ("numpy", "torch", "jax", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    for command in (["rustc", "--version"], ["valgrind", "--version"]):
        with contextlib.suppress(OSError):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found.append(done.stdout.partition(" (")[0].strip())
    found.append(" ".join(platform.libc_ver()))
    return ", ".join(filter(None, found))


def processor() -> tuple[str, bool]:
    """The name of the processor, and whether it has AVX2.

    Under valgrind, all processors with AVX2 run the same code: an Intel Xeon was within 0.5 % of
    an AMD EPYC.
    """
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        name = re.search(r"^model name\s*: (.+)", text, re.M)
        return name[1] if name else "", re.search(r"^flags\s*:.* avx2\b", text, re.M) is not None
    return "", False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a table printed before")
    parser.add_argument("--tolerance", type=float, default=0.02, help="0.02 allows 2 %% more")
    options = parser.parse_args()
    before = read(options.compare.read_text()) if options.compare else {}
    if options.compare and not before:
        parser.error(f"{options.compare} has no table of instructions")
    if "functions" in options.only:
        bridges.built(FUNCTIONS, "release")
    recorded_with = ", ".join(filter(None, [versions(), processor()[0]]))
    print(f"# Instructions\n\n{recorded_with}; (16, 16) float32; instructions of a call\n")
    print("| path | instructions | by hand |" + " before | change |" * bool(before))
    print("|---|---|---|" + "---|---|" * bool(before))
    slower = []
    for group in options.only:
        counts = count(GROUPS[group])
        for _ in range(1, PROCESSES):
            if not over(counts, before, options.tolerance):
                break
            for name, (ours, by_hand) in count(GROUPS[group]).items():
                counts[name] = (min(ours, counts[name][0]), by_hand)
        slower += over(counts, before, options.tolerance)
        for name, (ours, by_hand) in counts.items():
            line = f"| {name} | {ours} | {by_hand or ''} |"
            if name in before:
                line += f" {before[name]} | {ours / before[name] - 1:+.1%} |"
            print(line, flush=True)
    if slower:
        print(f"\nslower by more than {options.tolerance:.0%}: {', '.join(slower)}")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
