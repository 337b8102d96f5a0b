"""The package of ``examples/shipped-table``, installed beside this one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "shipped-table"
USE = """
import sys, warnings
import numpy as np
import arraybridge as ab

assert "pixel_grid" not in sys.modules
image = np.arange(6, dtype="f4").reshape(2, 3)
grid = ab.convert(image, "pixel_grid")
assert type(grid) is sys.modules["pixel_grid"].Grid and grid.values.tolist() == image.tolist()
assert np.shares_memory(ab.convert(grid, "numpy"), grid.values)
assert "pixel_grid" in {each["name"] for each in ab.frameworks()}

@ab.pixel_grid(output_type="input")
def doubled(grid):
    return type(grid)(grid.values * 2)

assert doubled(image).tolist() == (image * 2).tolist()

# What the image carries besides its values.
grid.spacing = (0.5, 2.0)
copied = ab.convert(grid, "pixel_grid", copy=True, keep="strict")
assert copied is not grid and copied.spacing == (0.5, 2.0)
try:
    ab.convert(grid, "numpy", keep="strict")
except ab.UnsupportedArrayError as error:
    assert "an array of numpy has no place for it" in str(error), error
else:
    raise SystemExit("the spacing was lost in silence")
with warnings.catch_warnings(record=True, action="always") as caught:
    ab.convert(grid, "numpy", keep=True)
assert [each.category for each in caught] == [ab.MetadataDroppedWarning], caught

# Of a table that does not say it, the attributes at risk are named.
name = ab.load_table(text='''
[other_grid]
module = "pixel_grid"
classes = ["__main__.Other"]
dtypes = ["standard"]
ndim = [2, 3]
to_numpy = "data.numpy()"
from_numpy = "module.Grid(data)"
''')

class Other(type(grid)):
    pass

try:
    ab.convert(Other(image, (3.0, 4.0)), "numpy", keep="strict")
except ab.UnsupportedArrayError as error:
    assert "these attributes may be lost: spacing" in str(error), error
else:
    raise SystemExit("the spacing was lost in silence")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package, as pip installs it."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("shipped")
    source = shutil.copytree(EXAMPLE, folder / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(folder / "site"), str(source)]
    subprocess.run(command, check=True)
    return folder / "site"


def run(site, *arguments):
    path = os.pathsep.join((str(site), *filter(None, sys.path)))
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installed_package_brings_its_framework(installed):
    run(installed, "-c", USE)


def test_its_table_is_right(installed):
    run(installed, "-m", "arraybridge", "check", "pixel_grid", "--against", "numpy", "pixel_grid")
