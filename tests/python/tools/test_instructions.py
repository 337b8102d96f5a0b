"""No main path takes more instructions than were recorded, as far as they can be compared here."""

import shutil
import subprocess
import sys

import bridges
import pytest

RECORDED = bridges.ROOT / "docs" / "instructions.md"


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
# Not pyclesperanto, whose threads make the counts vary by more than is tolerated, nor the functions
# in Rust, which take a build.
@pytest.mark.parametrize("group", ["numpy", "torch", "jax", "tensorflow"])
def test_no_main_path_takes_more_instructions_than_were_recorded(torch, group):
    import instructions

    versions = instructions.versions()
    if versions not in RECORDED.read_text():
        pytest.skip(f"the instructions were recorded with other versions than {versions}")
    if not instructions.processor()[1]:
        pytest.skip("the instructions were recorded on a processor with AVX2")
    done = subprocess.run(
        [sys.executable, instructions.__file__, "--only", group, "--compare", str(RECORDED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
