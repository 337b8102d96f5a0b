"""No call takes more instructions per item with many items than with few."""

import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
# Not the claims of Rust functions, which take a build.
@pytest.mark.parametrize("group", ["lists", "parts", "definitions"])
def test_no_call_takes_more_instructions_per_item_with_many_items(torch, group):
    import growth

    done = subprocess.run(
        [sys.executable, growth.__file__, "--only", group, "--largest", "10000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
