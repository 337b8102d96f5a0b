"""The programs of `make soak`, for a short time. What they check is in tests/soak."""

import subprocess
import sys

import bridges
import pytest

FOLDER = bridges.ROOT / "tests" / "soak"


def ends_well(*arguments):
    program = [sys.executable, "-X", "faulthandler", *map(str, arguments)]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr[-3000:]}"


@pytest.mark.parametrize("program", ["shutdown", "fork", "interpreter", "deleters", "memory"])
def test_threads_that_convert_survive(program):
    pytest.importorskip("torch")
    if program == "memory":
        pytest.importorskip("_testcapi", reason="this CPython has no _testcapi.set_nomemory")
    if program == "fork" and sys.platform == "win32":
        pytest.skip("the system has no fork")
    ends_well(FOLDER / "endings.py", program, 0.5)


def test_sixteen_threads_get_right_values_and_leave_nothing_behind():
    ends_well(FOLDER / "soak.py", "--seconds", 3)
