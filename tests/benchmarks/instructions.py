"""Count the instructions of the main paths: they are the same on a busy machine.

Each path runs in two processes under callgrind, one of which calls it more often. The difference,
by the number of further calls, is the cost of a call, with the loop around it (the first row).

    python tests/benchmarks/instructions.py [numpy torch functions ...]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CALLS = 2000

NUMPY = "import numpy as np, arraybridge as ab; x = np.ones((16, 16), 'float32')"
TESTS = Path(__file__).parents[1] / "python"
FUNCTIONS = (
    f"import sys; sys.path.insert(0, {str(TESTS)!r}); import bridges;"
    "functions = bridges.extension('tests/benchmarks/functions', 'release', build=False);" + NUMPY
)
TORCH = "import torch; " + NUMPY + "; t = torch.ones(16, 16)"
PATHS = {
    "numpy": {
        "empty loop": (NUMPY, "pass"),
        "detect_memory_type": (NUMPY, "detect(x)"),
        "numpy -> numpy, kept": (NUMPY, "convert(x, 'numpy')"),
        "numpy -> numpy, copy": (NUMPY, "convert(x, 'numpy', copy=True)"),
        "numpy -> numpy, uint16": (NUMPY, "convert(x, 'numpy', dtype='uint16')"),
        "@numpy, arguments fit": (NUMPY + "; f = ab.numpy(lambda x: x)", "f(x)"),
    },
    "functions": {
        "Rust function, array to number": (FUNCTIONS, "functions.total(x)"),
        "the same by hand": (FUNCTIONS, "functions.total_by_hand(x)"),
        "Rust function, array to array": (FUNCTIONS, "functions.doubled(x)"),
        "the same by hand, too": (FUNCTIONS, "functions.doubled_by_hand(x)"),
    },
    "torch": {
        "torch -> numpy": (TORCH, "convert(t, 'numpy')"),
        "t.numpy()": (TORCH, "t.numpy()"),
        "numpy -> torch": (TORCH, "convert(x, 'torch')"),
        "torch.from_numpy": (TORCH, "from_numpy(x)"),
    },
}


def instructions(setup: str, call: str, number: int) -> int:
    code = (
        f"{setup}\ndef loop():\n    convert, detect = ab.convert, ab.detect_memory_type\n"
        + ("    from_numpy = torch.from_numpy\n" if "torch" in setup else "")
        + f"    for _ in range({number}):\n        {call}\nloop()\n"
    )
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment |= {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    done = subprocess.run(
        [*command, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or counted is None:
        raise SystemExit(done.stderr[-2000:])
    return int(counted[1])


def main() -> None:
    print("| path | instructions a call |\n|---|---|")
    for group in sys.argv[1:] or PATHS:
        if group == "functions":
            instructions(FUNCTIONS.replace("build=False", "build=True"), "pass", 1)
        for name, (setup, call) in PATHS[group].items():
            few, many = (instructions(setup, call, n) for n in (CALLS, 3 * CALLS))
            print(f"| {name} | {(many - few) / (2 * CALLS):.0f} |", flush=True)


if __name__ == "__main__":
    main()
