"""Forty tables that lie in one key: ``check`` names that key, and no other. Uses: see trials.py.

`test_load.py` runs these tests in a process of their own, which the tables stay in.
"""

import sys
import types
import weakref

import arraybridge as ab
import numpy as np
import pytest
from arraybridge._tools.check import claims
from arraybridge._tools.check.tables import Lie, Table, tables

KINDS = {"float32": "f", "float64": "d", "int32": "i", "uint8": "B"}


class Plain:
    """An array that shares its memory by DLPack, and has what NumPy's have."""

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)

    def __init__(self, values):
        if values.ndim > 8:
            raise ValueError("at most 8 axes")
        self.values = values

    def __dlpack__(self, *, stream=None, max_version=None):
        return self.values.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return (1, 0)

    def __getitem__(self, index):
        return type(self)(self.values[index])

    def __setitem__(self, index, value):
        self.values[index] = value

    def __iter__(self):
        return map(type(self), self.values)

    def copy(self):
        return type(self)(self.values.copy())

    def pooled(self):
        """The same, in memory that is used again when the array is gone."""
        pool = self.values.copy()
        made = type(self)(pool.view())
        weakref.finalize(made, pool.fill, 9)
        return made


class Own:
    """An array with dtypes, a shape and a setup of its own, which copies."""

    alive = []

    def __init__(self, values):
        if not values.size:
            raise ValueError("no elements")
        self.values = values
        Own.alive.append(self)

    def kind(self):
        return KINDS[str(self.values.dtype)]

    def shape(self):
        return self.values.shape

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, index):
        return Own(self.values[index])

    def numpy(self):
        return self.values.copy()

    def turned(self):
        return self.values.T.copy()

    def set(self, values):
        self.values[...] = values


class Fixed:
    """An array that never changes, in contiguous memory that is aligned to 64 bytes or copied."""

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)

    def __init__(self, values):
        if not values.flags.c_contiguous:
            raise ValueError("contiguous memory, please")
        self.values = values if values.ctypes.data % 64 == 0 else values.copy()

    def view(self):
        shown = self.values.view()
        shown.flags.writeable = False
        return shown


class Frozen(Fixed):
    """The same by DLPack."""

    def __dlpack__(self, *, stream=None, max_version=None):
        return self.view().__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return (1, 0)


class Moved(Fixed):
    """The same, of which an assignment gives the array other memory."""

    def __setitem__(self, index, value):
        self.values = self.values.copy()
        self.values[index] = value


class Mixed(Plain):
    """An array that DLPack carries unless it is of bools, which go through NumPy."""

    def __dlpack__(self, **options):
        if self.dtype == bool:
            raise BufferError("no bools")
        return super().__dlpack__(**options)


def mixed(data):
    if data.dtype == bool:
        raise BufferError("no bools")
    return Mixed(np.from_dlpack(data))


def dlpack(data):
    return Plain(np.from_dlpack(data))


def start():
    for each in Own.alive:
        each.values = each.values.reshape(-1)[:0]
    Own.alive.clear()
    library.started = True


LIBRARY = {
    "Moved": Moved, "Mixed": Mixed, "mixed": mixed,
    "Plain": Plain, "Own": Own, "Fixed": Fixed, "Frozen": Frozen, "from_dlpack": dlpack,
    "start": start, "started": False, "clear": lambda: None, "wait": lambda data: data,
    "rounded": lambda data: Plain(np.round(np.from_dlpack(data)).astype(data.dtype)),
    "copied": lambda data: Plain(np.from_dlpack(data).copy()),
    "sent": lambda data: None,
    "empty": lambda data: Own(np.zeros_like(data)), **dict.fromkeys("fdiB", object()),
}  # fmt: skip
library = types.ModuleType("lying_library")
vars(library).update(LIBRARY)
for each in (Plain, Own, Fixed, Frozen, Moved, Mixed):
    each.__module__ = "lying_library"
sys.modules["lying_library"] = library

TABLES = """
[plain]
module = "lying_library"
classes = ["lying_library.Plain"]
dtypes = ["standard"]
ndim = [0, 8]
align = 16
copy = "data.copy()"
clear = ["module.clear()"]
ready = "module.wait(data)"
import = { op = "module.from_dlpack(data)", read_only = true }

[own]
module = "lying_library"
classes = ["lying_library.Own"]
dtypes = ["uint8", "int32", "float32", "float64"]
dtype = "name"
dtype_names = { float32 = "f", float64 = "d", int32 = "i", uint8 = "B" }
dtype_of = "data.kind()"
shape_of = "data.shape()"
slices = "index"
empty = false
init = "module.start()"
initialized = "module.started"
to_numpy = "data.numpy()"
from_numpy = "module.Own(data.copy())"

[fixed]
module = "lying_library"
classes = ["lying_library.Fixed"]
immutable = true
dtypes = ["standard"]
to_numpy = "data.view()"
import = { op = "module.Fixed(array)", strides = "contiguous", align = 64 }

[frozen]
module = "lying_library"
classes = ["lying_library.Frozen"]
immutable = true
dtypes = ["float32", "int32"]
from_numpy = "module.Frozen(data.copy())"
export = {}

[moved]
module = "lying_library"
classes = ["lying_library.Moved"]
immutable = true
dtypes = ["standard"]
to_numpy = "data.view()"
import = { op = "module.Moved(array)", strides = "contiguous", align = 64 }

[mixed]
module = "lying_library"
classes = ["lying_library.Mixed"]
dtypes = ["standard"]
ndim = [0, 8]
copy = "data.copy()"
to_numpy = "data.values"
from_numpy = "module.Mixed(data.copy())"
export = { no_dlpack = ["bool"] }
import = { op = "module.mixed(data)", read_only = true, no_dlpack = ["bool"] }
"""
# The table, the key, the lie (None leaves the key out), the named key if it is another one, and
# what else is said.
LIES = [
    ("plain", "module", "lying_libary", ""),
    ("plain", "classes", ["lying_library.Fixed"], "", "lying_library.Plain"),
    ("plain", "classes", ["lying_library.Plane"], ""),
    ("plain", "dtypes", ["standard", "bfloat16"], ""),
    ("plain", "dtype", "numpy.dtype(name).newbyteorder()", ""),
    ("plain", "dtype_names", {"float32": "float64"}, ""),
    ("plain", "memory", "accelerator", "", "device 1"),
    ("plain", "immutable", True, "", "set in place"),
    ("plain", "align", 2**20, "", "not 1048576"),
    ("plain", "ndim", [0, 9], ""),
    ("plain", "copy", "data", "", "the memory of the array"),
    ("plain", "copy", "data.values", "", "the copy is a"),
    ("plain", "copy", "data.kopy()", ""),
    ("plain", "clear", ["module.cleer()"], "", "cleer"),
    ("plain", "ready", "module.wiat(data)", ""),
    ("plain", "import.op", "module.from_dlpck(data)", ""),
    ("plain", "import.op", "module.rounded(data)", ""),
    ("plain", "import.op", "module.copied(data)", "import.shares", "shares = false"),
    ("plain", "import.shares", False, "", "shares = true"),
    ("plain", "import.devices", ["cuda"], ""),
    ("plain", "import.writable_only", True, ""),
    ("plain", "export.op", "data.__dlpack__(version = version)", ""),
    ("plain", "export.buffer", True, ""),
    ("plain", "check.make", "module.from_dlpack(data).pooled()", "export.owner"),
    ("plain", "guards", [{"why": "odd", "when": "data.shape != None"}], ""),
    ("plain", "oom", [{"class": "builtins.MemoryEror"}], ""),
    ("plain", "oom", [{"class": "builtins.int"}], "", "not an exception"),
    ("own", "dtype", None, ""),
    ("own", "dtype_of", None, ""),
    ("own", "dtype_of", "data.shape()", ""),
    ("own", "shape_of", None, ""),
    ("own", "dtype_names", {"float32": "d", "float64": "f", "int32": "i", "uint8": "B"}, ""),
    ("own", "empty", None, ""),
    ("own", "init", "module.strat()", ""),
    ("own", "initialized", None, ""),
    ("own", "initialized", "module.startd", ""),
    ("own", "to_numpy", "data.nunpy()", ""),
    ("own", "to_numpy", "data.turned()", ""),
    ("own", "to_numpy", "data.shape()", ""),
    ("own", "from_numpy", "module.Own(data)", "", "after a write to the source"),
    ("own", "from_numpy", "module.sent(data)", ""),
    ("own", "fill", "array.shape()", ""),
    ("own", "slices", "iterate", ""),
    ("own", "watched", "data.values.size > 0", ""),
    ("fixed", "immutable", None, ""),
    ("fixed", "import.align", None, ""),
    ("fixed", "import.strides", None, ""),
    ("frozen", "immutable", None, ""),
]


RIGHT = ["plain", "own", "fixed", "frozen", "moved", "mixed"]


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    assert ab.load_table(text=TABLES) == RIGHT


def found(table):
    """The keys that are named."""
    named = {}
    for case, key, run in claims.cases(table):
        result = claims.outcome(table, key, run)
        if result["status"] == "failed":
            named.setdefault(result["key"], []).append(f"{case}: {result['reason']}")
    return named


@pytest.mark.parametrize("name", RIGHT)
def test_the_tables_without_a_lie_are_right(name):
    assert found(tables()[name]) == {}


@pytest.mark.parametrize("told", LIES, ids=lambda told: "-".join(map(str, told[:3]))[:60])
def test_the_key_of_a_lie_is_named(told):
    name, key, lie, named, *words = told
    library.started = False
    table = tables()[name]
    *sections, last = key.split(".")
    keys = table.keys
    for section in sections:
        keys = keys.setdefault(section, {})
    if lie is None:
        del keys[last]
    else:
        keys[last] = lie
    if key == "fill":
        table.keys["from_numpy"] = "module.empty(data)"
    reasons = found(Table(name, table.keys, table.source))
    assert list(reasons) == [named or key]
    assert all(word in str(reasons) for word in words), reasons


def test_an_owner_that_does_not_keep_its_memory_is_found_without_dlpack():
    assert claims.check_kept(tables()["fixed"]) is not None
    table = tables()["plain"]
    table.uses_dlpack = lambda *_: False
    table.keys |= {
        "to_numpy": "data.values",
        "check": {"make": "module.from_dlpack(data).pooled()"},
    }
    with pytest.raises(Lie, match="copy it") as found:
        claims.check_kept(table)
    assert found.value.key == "to_numpy"
