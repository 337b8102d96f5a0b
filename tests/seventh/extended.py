"""The interpreter whose wheel has the tables of this folder, and code that runs there.

`make seventh` builds the wheel, installs it into an environment of its own, and has the variable
ARRAYBRIDGE_SEVENTH_PYTHON name the interpreter.
"""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

FAKES = Path(__file__).parents[1] / "fakes"
PYTHON = os.environ.get("ARRAYBRIDGE_SEVENTH_PYTHON", "")

needed = pytest.mark.skipif(
    not (PYTHON and os.path.exists(PYTHON)),
    reason="ARRAYBRIDGE_SEVENTH_PYTHON does not name an interpreter; run `make seventh`",
)

PREFACE = """
import numpy as np
import arraybridge as ab

def raises(kind, call):
    try:
        result = call()
    except kind as error:
        return error
    raise SystemExit(f"no {kind.__name__} but {result!r}")
"""


def run(code, *arguments, preface=PREFACE, **variables):
    """Run code after a preface, and return what it printed."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [os.path.abspath(PYTHON), "-c", preface + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        env=kept | {"PYTHONPATH": str(FAKES)} | variables,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
