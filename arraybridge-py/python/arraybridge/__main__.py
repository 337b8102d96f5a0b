"""Command line tools.

``python -m arraybridge doctor`` reports which frameworks are installed here, and whether they work.
It imports each in a separate process, so that a crash is only a line of the report.

``python -m arraybridge stubs MODULE`` prints the type stub of an extension's declared functions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import signal
import subprocess
import sys

import numpy

from . import __version__, frameworks, registered_pairs
from .stubs import stub

TIMEOUT_S = 180

# Examines one framework, and prints what it found as JSON on the last line.
PROBE = """
import importlib, importlib.util, json, sys
name, module = sys.argv[1:3]
answer = {}
def say():
    print()
    print(json.dumps(answer))
if importlib.util.find_spec(module) is None:
    answer["missing"] = True
    say()
    sys.exit()
try:
    answer["version"] = str(getattr(importlib.import_module(module), "__version__", "?"))
except BaseException as error:
    answer["error"] = f"import failed: {type(error).__name__}: {error}"
    say()
    sys.exit()
import numpy, arraybridge
image = numpy.arange(6, dtype="uint16").reshape(2, 3)
try:
    there = arraybridge.convert(image, name)
    answer["device"] = str(arraybridge.explain(there, name).device)
    back = arraybridge.convert(there, "numpy")
    answer["works"] = bool((back == image).all())
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
try:
    arraybridge.convert(image, name, device="accelerator:4095")
except Exception as error:
    answer["accelerators"] = str(getattr(error, "reason", error))
say()
"""

# TensorFlow and PoCL each come with an LLVM. The second to be loaded may crash the process.
ORDER = """
import numpy, tensorflow, arraybridge
arraybridge.convert(numpy.zeros((2, 2), "float32"), "pyclesperanto")
"""


def run(code: str, *arguments: str) -> tuple[str | None, str]:
    """Run code in a new interpreter. Return what went wrong, and the last line it printed."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not finish within {TIMEOUT_S} s", ""
    lines = done.stdout.strip().splitlines()
    last = lines[-1] if lines else ""
    if done.returncode < 0:
        return f"the process was killed by {signal.Signals(-done.returncode).name}", last
    if done.returncode:
        errors = done.stderr.strip().splitlines()
        return errors[-1] if errors else f"exit status {done.returncode}", last
    return None, last


def examine(name: str, module: str) -> dict[str, object]:
    """Whether one framework is installed and works on this machine."""
    problem, last = run(PROBE, name, module)
    if problem is not None:
        return {"error": problem}
    return json.loads(last)


def describe(found: dict[str, object], install: str) -> list[str]:
    """The lines of the report about one framework. The first is its state."""
    if found.get("missing"):
        return [f"not installed (pip install {install})"]
    lines = [str(found.get("version", ""))]
    if "error" in found:
        lines.append(f"BROKEN: {found['error']}")
    elif found.get("works"):
        lines.append(f"works: a uint16 image made the round trip to {found['device']} unchanged")
    else:
        lines.append("BROKEN: a uint16 image came back with other values")
    if found.get("accelerators"):
        lines.append(str(found["accelerators"]))
    return lines


def doctor() -> int:
    """Print the report. Return 1 if an installed framework does not work, otherwise 0."""
    print(
        f"arraybridge {__version__}, Python {platform.python_version()}, NumPy "
        f"{numpy.__version__}, {platform.platform()}"
    )
    broken = False
    installed = set()
    for framework in frameworks():
        found = examine(framework["name"], framework["module"])
        broken |= "error" in found or found.get("works") is False
        if not found.get("missing"):
            installed.add(framework["name"])
        head, *rest = describe(found, framework["install"])
        print(f"\n{framework['title']:<16}{head}")
        for line in rest:
            print(f"{'':<16}{line}")
    if {"tensorflow", "pyclesperanto"} <= installed:
        problem, _ = run(ORDER)
        print(
            "\nOpenCL after TensorFlow: "
            + ("works" if problem is None else f"BROKEN: {problem}; import pyclesperanto first")
        )
        broken |= problem is not None
    pairs = registered_pairs()
    print(
        f"\n{len(pairs)} converters between: " + ", ".join(sorted({source for source, _ in pairs}))
    )
    return int(broken)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m arraybridge")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="report which frameworks are installed and work")
    stubs = commands.add_parser("stubs", help="print the type stub of an extension module")
    stubs.add_argument("module", help="the name that it is imported by")
    arguments = parser.parse_args()
    if arguments.command == "doctor":
        return doctor()
    text = stub(importlib.import_module(arguments.module))
    if "def " not in text:
        parser.error(f"{arguments.module} has no declared functions")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
