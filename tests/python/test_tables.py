"""What the macro and the package say of the tables, compared with each other."""

import pathlib
import re
import subprocess
import sys

import arraybridge as ab
import bridges
import pytest

NAMES = bridges.ROOT / "arraybridge-macros/src/table/validate/names.rs"


def listed(constant):
    text = re.search(rf"const {constant}: &\[&str\] = &\[(.*?)\];", NAMES.read_text(), re.DOTALL)
    return set(re.findall(r'"(\w+)"', text[1]))


def test_a_table_cannot_have_a_name_that_the_package_uses():
    # In a process of its own: here the tests have imported more of the package.
    code = """
import pathlib
import arraybridge
here = set(dir(arraybridge)) | set(arraybridge.__all__) | arraybridge._SUBMODULES
modules = {
    path.stem
    for folder in arraybridge.__path__
    for path in pathlib.Path(folder).iterdir()
    if path.suffix == ".py" or path.is_dir()
}
tables = {framework["name"] for framework in arraybridge.frameworks()}
print(*(here | modules) - tables)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    used = {name for name in done.stdout.split() if name[0].islower()}
    # A decorator's `output_type` may be "input".
    assert listed("TAKEN") == used | {"input"}


STUBS = sorted((bridges.ROOT / "arraybridge-py/python/arraybridge").glob("*.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_the_stubs_of_a_wheel_are_those_of_the_repository(stub):
    # arraybridge-py/build.rs writes them from the tables. Where this fails, copy them back.
    assert pathlib.Path(ab.__file__).with_name(stub.name).read_text() == stub.read_text()
