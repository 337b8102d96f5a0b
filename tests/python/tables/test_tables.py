"""What the macro and the package say of the tables, compared with each other."""

import importlib
import pathlib
import re
import subprocess
import sys

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge._tools import schema

NAMES = bridges.ROOT / "crates/table/src/names.rs"


def taken():
    return {*re.search(r'const TAKEN: &str = "(.*?)";', NAMES.read_text(), re.DOTALL)[1].split()}


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
    assert taken() == used | {"input"}
    for name in taken():
        table = f'[{name}]\nclasses = ["a.B"]\n'
        assert "name of the package" in "".join(schema.mistakes({"t.toml": table})), name


STUBS = sorted((bridges.ROOT / "arraybridge-py/python/arraybridge").glob("*.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_the_stubs_of_a_wheel_are_those_of_the_repository(stub):
    # arraybridge-py/build.rs writes them from the tables. Where this fails, copy them back.
    assert pathlib.Path(ab.__file__).with_name(stub.name).read_text() == stub.read_text()


def dtype_objects():
    for name, module in (("torch", "torch"), ("tensorflow", "tensorflow"), ("jax", "jax.numpy")):
        for dtype in ("uint8", "int64", "float16", "bfloat16", "float8_e5m2", "complex64"):
            yield pytest.param(name, module, dtype, id=f"{name}-{dtype}")


@pytest.mark.parametrize(("name", "module", "dtype"), dtype_objects())
def test_a_dtype_is_any_framework_s_object_of_it(name, module, dtype):
    source = importlib.import_module(module)
    wanted = source.as_dtype(dtype) if name == "tensorflow" else getattr(source, dtype)
    assert ab.convert(np.ones(3, "float32"), "numpy", dtype=wanted).dtype.name == dtype
    result = ab.finish_dtype(np.ones(3, "float32"), np.ones(3), dtype_conversion=wanted)
    assert result.dtype.name == dtype


class Impostor:
    """It has the name and the text of a dtype and says that it equals one, and is none."""

    name = "uint8"
    __hash__ = None

    def __eq__(self, other):
        return True

    def __str__(self):
        return "torch.uint8"


def test_a_dtype_is_not_known_by_its_text():
    # NumPy is loaded then, and its dtypes are asked.
    image = ab.convert(np.ones(3), "numpy", copy=True)
    with pytest.raises(ValueError, match="unknown dtype"):
        ab.convert(image, "numpy", dtype=Impostor())
    with pytest.raises(ValueError, match="unknown dtype"):
        ab.finish_dtype(image, image, dtype_conversion=Impostor())
