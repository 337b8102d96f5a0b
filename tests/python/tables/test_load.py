"""Runs tests of loaded tables in processes of their own: a table that is loaded stays."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ("loaded.py", "lies.py", "trials.py"))
def test_in_a_process_of_its_own(name):
    tests = Path(__file__).with_name(name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
