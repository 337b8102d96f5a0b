"""``python -m arraybridge draft`` writes a table of what arrays can do, which ``check`` passes."""

import os
import subprocess
import sys
import tomllib

import pytest
from arraybridge._tools import draft

# Two classes of arrays. One shares its memory by DLPack. The other ends the process there, has
# dtypes with names of its own and at most 2 axes, copies, and never changes.
LIBRARY = """
import os, signal
import numpy as np

class Shared:
    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)
    def __init__(self, values): self.values = values
    def __dlpack__(self, **options): return self.values.__dlpack__(**options)
    def __dlpack_device__(self): return (1, 0)
    def __getitem__(self, index): return Shared(self.values[index])
    def __setitem__(self, index, value): self.values[index] = value

class Kind:
    def __init__(self, name): self.name = name
    def __str__(self): return self.name
    def __eq__(self, other): return isinstance(other, Kind) and self.name == other.name
    def __hash__(self): return hash(self.name)

Float, Byte = Kind("f4"), Kind("u1")

class Named:
    def __init__(self, values):
        if values.ndim > 2 or str(values.dtype) not in ("float32", "uint8"):
            raise ValueError("no such array")
        self.values = values.copy()
        self.values.flags.writeable = False
        self.dtype = Float if values.dtype == "float32" else Byte
        self.shape = values.shape
    def numpy(self): return self.values
    def __dlpack__(self, **options): os.kill(os.getpid(), signal.SIGSEGV)
    def __dlpack_device__(self): return (1, 0)

def from_dlpack(data): return Shared(np.from_dlpack(data))

# Arrays of one class for each dtype. They drop a last axis of length one.
class Floats:
    def __init__(self, values): self.values = values
    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)
    def numpy(self): return self.values

class Bytes(Floats): pass
class Ints(Floats): pass

def columns(values, order):
    if values.ndim not in (1, 2): raise ValueError("one axis or two")
    if values.shape[1:] == (1,): values = values[:, 0]
    return {"float32": Floats, "uint8": Bytes, "int32": Ints}[str(values.dtype)](values.copy(order))
"""


def drafted(tmp_path, *arguments):
    (tmp_path / "drafted_library.py").write_text(LIBRARY)
    path = os.pathsep.join((str(tmp_path), *sys.path))
    command = [sys.executable, "-m", "arraybridge", "draft", *arguments]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines passed" in done.stderr
    return tomllib.loads(done.stdout)["drafted_library"], done.stdout


def test_arrays_that_are_shared_by_dlpack_need_few_lines(tmp_path):
    keys, text = drafted(tmp_path, "drafted_library.Shared")
    assert keys == {
        "classes": ["drafted_library.Shared"],
        "dtypes": ["standard"],
        "import": {"op": "module.from_dlpack(data)", "read_only": True},
    }
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 5


def test_a_way_that_ends_the_process_is_not_used(tmp_path):
    make, read = "drafted_library.Named(data)", "data.numpy()"
    keys, text = drafted(tmp_path, "drafted_library.Named", "--make", make, "--read", read)
    assert keys.pop("align", 16) >= 8
    assert keys == {
        "classes": ["drafted_library.Named"],
        "immutable": True,
        "dtypes": ["uint8", "float32"],
        "dtype_names": {"uint8": "Byte", "float32": "Float"},
        "ndim": [0, 2],
        "to_numpy": "data.numpy()",
        "from_numpy": "module.Named(data)",
    }
    # What was tried is said of each key.
    assert "# 3 axes: " in text and "no element can be set" in text


def test_classes_by_dtype_and_shapes_that_fail_are_found(tmp_path):
    make = "drafted_library.columns(data, 'C')"
    keys, text = drafted(
        tmp_path, "drafted_library.columns", "--make", make, "--read", "data.numpy()"
    )
    assert sorted(keys["classes"]) == [f"drafted_library.{x}" for x in ("Bytes", "Floats", "Ints")]
    assert keys["dtypes"] == ["uint8", "int32", "float32"] and keys["ndim"] == [1, 2]
    assert keys["shapes"] == ["shape[1] != 1"] and "# (0, 1): the shape is (0,)" in text
    assert keys["from_numpy"] == 'module.columns(data, "C")'


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("no_such_library.Array", "", "no_such_library is not installed"),
        ("decimal.Decimel", "", "there is no class decimal.Decimel; did you mean Decimal?"),
        ("numpy.ndarray", "", "there is a table [numpy] already"),
        ("decimal.Decimal", "not a name", "cannot name a table"),
    ],
)
def test_what_cannot_be_drafted_is_said_before(kind, name, words):
    with pytest.raises(draft.Stop, match=words.replace("[", r"\[").replace("?", r"\?")):
        draft.requested(kind, name, "", "")


def test_expressions_call_the_module_by_the_name_that_operations_know():
    found = draft.requested("decimal.Decimal", "", "decimal.Decimal(data)", "x.decimal.y(data)")
    assert (found["make"], found["read"]) == ("module.Decimal(data)", "x.decimal.y(data)")
