"""Runs tests of loaded tables in processes of their own: a table that is loaded stays."""

import os
import subprocess
import sys
from pathlib import Path

import bridges
import pytest

# The frameworks that the tests of a file use beside NumPy. Others would only take time to load.
USED = {"loaded.py": bridges.CPU_FRAMEWORKS, "lies.py": (), "trials.py": ("torch", "jax")}


@pytest.mark.parametrize("name", USED)
def test_in_a_process_of_its_own(name):
    tests, used = Path(__file__).with_name(name), {"numpy", *USED[name]}
    env = {
        **os.environ,
        "ARRAYBRIDGE_LEAVE_OUT": " ".join({*bridges.CPU_FRAMEWORKS} - used),
        "ARRAYBRIDGE_REQUIRE": " ".join(used.intersection(bridges.INSTALLED)),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
