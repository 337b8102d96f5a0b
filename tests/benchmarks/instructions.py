"""Count the instructions of the main paths: they are the same on a busy machine.

Each group runs in one process under callgrind, which counts only while a path is called, after some
calls that fill the caches. A number is the cost of a call, with the loop around it (the first row).
It needs valgrind with its headers, and a C compiler.

    python tests/benchmarks/instructions.py [numpy torch jax tensorflow functions ...]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = 2000
WARM_UP = 300

# What switches the counting on and off are macros, so that it takes a C compiler.
COUNTER = """
#include <valgrind/callgrind.h>
void on(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void off(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""

CODE = """
import ctypes, json, sys
counter = ctypes.CDLL(sys.argv[1])
import numpy as np, arraybridge as ab
x = np.ones((16, 16), "float32")
{setup}
for name, call in json.loads(sys.argv[2]).items():
    scope = dict(globals())
    exec("def loop(n):\\n    convert, detect = ab.convert, ab.detect_memory_type\\n"
         f"    for _ in range(n):\\n        {{call}}\\n", scope)
    scope["loop"]({warm_up})
    counter.on()
    scope["loop"]({calls})
    counter.off(name.encode())
"""

TESTS = Path(__file__).parents[1] / "python"
FUNCTIONS = (
    f"sys.path.insert(0, {str(TESTS)!r}); import bridges;"
    "functions = bridges.extension('tests/benchmarks/functions', 'release', build=False)"
)
# Setup, and paths.
GROUPS = {
    "numpy": (
        "declared = ab.numpy(lambda x: x)",
        {
            "empty loop": "pass",
            "detect_memory_type": "detect(x)",
            "numpy -> numpy, kept": "convert(x, 'numpy')",
            "numpy -> numpy, copy": "convert(x, 'numpy', copy=True)",
            "numpy -> numpy, uint16": "convert(x, 'numpy', dtype='uint16')",
            "@numpy, arguments fit": "declared(x)",
        },
    ),
    "torch": (
        "import torch; t = torch.ones(16, 16)",
        {
            "torch -> numpy": "convert(t, 'numpy')",
            "t.numpy()": "t.numpy()",
            "numpy -> torch": "convert(x, 'torch')",
            "torch.from_numpy": "torch.from_numpy(x)",
            "torch -> numpy, copy": "convert(t, 'numpy', copy=True)",
        },
    ),
    "jax": (
        "import jax, jax.numpy as jnp; t = jnp.ones((16, 16))",
        {
            "jax -> numpy": "convert(t, 'numpy')",
            "np.asarray of a JAX array": "np.asarray(t)",
        },
    ),
    "tensorflow": (
        "import tensorflow as tf; t = tf.ones((16, 16))",
        {
            "tensorflow -> numpy": "convert(t, 'numpy')",
            "np.asarray of a tensor": "np.asarray(t)",
        },
    ),
    "functions": (
        FUNCTIONS,
        {
            "Rust function, array to number": "functions.total(x)",
            "the same by hand": "functions.total_by_hand(x)",
            "Rust function, array to array": "functions.doubled(x)",
            "the same by hand, too": "functions.doubled_by_hand(x)",
        },
    ),
}


def counter(folder: Path) -> Path:
    """The library that switches the counting on and off."""
    library = folder / "counter.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=COUNTER, text=True, check=True)
    return library


def count(group: str, folder: Path) -> dict[str, float]:
    """Instructions a call of each path of a group."""
    setup, paths = GROUPS[group]
    code = CODE.format(setup=setup, warm_up=WARM_UP, calls=CALLS)
    out = folder / group
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={out}", sys.executable, "-c", code]
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment |= {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    done = subprocess.run(
        [*command, str(counter(folder)), json.dumps(paths)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {}
    for dump in folder.glob(f"{group}.*"):
        text = dump.read_text()
        trigger = re.search(r"Trigger: Client Request: (.+)", text)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if trigger and total:
            found[trigger[1]] = int(total[1]) / CALLS
    if done.returncode != 0 or found.keys() != paths.keys():
        raise SystemExit(f"{group} was not counted:\n{done.stderr[-2000:]}")
    return {name: found[name] for name in paths}


def main() -> None:
    print("| path | instructions a call |\n|---|---|")
    for group in sys.argv[1:] or GROUPS:
        if group == "functions":
            subprocess.run(
                [sys.executable, "-c", f"import sys; {FUNCTIONS.replace('=False', '=True')}"],
                check=True,
            )
        with tempfile.TemporaryDirectory() as folder:
            for name, number in count(group, Path(folder)).items():
                print(f"| {name} | {number:.0f} |", flush=True)


if __name__ == "__main__":
    main()
