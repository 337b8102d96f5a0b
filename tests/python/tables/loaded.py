"""Tables that are loaded while the program runs are known everywhere, as those of the build are.

`test_load.py` runs these tests in a process of their own, which the tables stay in.
"""

import copy
import pickle
import subprocess
import sys

import arraybridge as ab
import bridges
import numpy as np
import pytest

# A library of arrays that hold a NumPy array, in a module of its own.
LIBRARY = """
import numpy

class Array:
    def __init__(self, values): self.values = numpy.array(values)
    def __array__(self, dtype=None, copy=None): return numpy.array(self.values, dtype)
    dtype = property(lambda self: str(self.values.dtype))
    shape = property(lambda self: self.values.shape)
    def __getitem__(self, index): return Array(self.values[index])

def make(values): return Array(values)
def turned(values): return Array(values if values.size else values.T)
"""
TABLE = """
[{name}]
title = "Loaded"
classes = ["{name}.Array"]
memory = "host"
dtypes = ["standard"]
dtype = "name"
to_numpy = "data.values"
from_numpy = "module.make(data)"
array = {{ namespace = "numpy" }}
oom = [{{ class = "builtins.MemoryError" }}]
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A library and the framework that its table, loaded from a file, made of it."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "loaded_library.py").write_text(LIBRARY)
    sys.path.insert(0, str(folder))
    import loaded_library

    # Met before the table is loaded.
    with pytest.raises(ab.MemoryConversionError, match="Unknown memory type"):
        ab.detect_memory_type(loaded_library.Array([1]))
    file = folder / "frameworks.toml"
    file.write_text(TABLE.format(name="loaded_library"))
    assert ab.load_table(file) == ["loaded_library"]
    assert ab.load_table(str(file)) == []
    yield loaded_library
    sys.path.remove(str(folder))


def test_a_class_that_was_met_before_is_known_then(library):
    assert ab.detect_memory_type(library.Array([1.5])) == "loaded_library"


@pytest.mark.parametrize("other", bridges.CPU_FRAMEWORKS)
@pytest.mark.parametrize("dtype", ("uint8", "int32", "float32"))
def test_arrays_are_converted_both_ways(library, other, dtype):
    bridges.need(other)
    values = bridges.values(dtype, (2, 3))
    array = ab.convert(bridges.make(other, values), library.Array)
    assert type(array) is library.Array and array.values.tobytes() == values.tobytes()
    assert bridges.difference(other, ab.convert(array, other), values) is None
    assert ab.explain(array, other).source == "loaded_library"


def test_all_that_names_a_framework_knows_it(library):
    member = ab.MemoryType("loaded_library")
    assert member is ab.MemoryType.LOADED_LIBRARY is ab.MemoryType["LOADED_LIBRARY"]
    assert member in list(ab.MemoryType) and len(ab.MemoryType) == len(list(ab.MemoryType))
    assert member == "loaded_library" and hash(member) == hash("loaded_library")
    assert repr(member) == "<MemoryType.LOADED_LIBRARY: 'loaded_library'>"
    for copied in (pickle.loads(pickle.dumps(member)), copy.deepcopy(member)):
        assert copied is member
    image = np.arange(3.0)
    assert type(member.converter.to_numpy(library.make(image))) is np.ndarray
    assert type(ab.MemoryType.NUMPY.converter.to_loaded_library(image)) is library.Array
    assert member in ab.SUPPORTED_MEMORY_TYPES and member in ab.types.CPU_MEMORY_TYPES
    assert "loaded_library" in ab.SCALING_FUNCTIONS and "loaded_library" in dir(ab)
    assert ("loaded_library", "numpy") in ab.registered_pairs()
    assert ab.gpu_cleanup.MEMORY_TYPE_CLEANUP_REGISTRY["loaded_library"]() == {}
    assert ab.loaded_library is ab.decorators.loaded_library
    with ab.trace() as traced:
        ab.convert(image, "loaded_library")
    assert "loaded_library" in str(traced)


def test_a_declared_function_works_on_its_arrays(library):
    seen = []

    @ab.loaded_library(output_type="input")
    def doubled(image):
        seen.append(type(image))
        return library.make(image.values * 2)

    for framework in ("numpy", "torch", "loaded_library"):
        if framework != "loaded_library":
            bridges.need(framework)
        result = doubled(ab.convert(np.arange(3.0), framework))
        assert ab.detect_memory_type(result) == framework
        assert ab.convert(result, "numpy").tolist() == [0, 2, 4]
    assert set(seen) == {library.Array}
    stack = ab.process_slices(library.make(np.ones((2, 3, 4))), lambda each: each)
    assert type(stack) is library.Array and stack.shape == (2, 3, 4)


def test_a_pickle_says_what_a_process_without_the_table_lacks(library):
    for thing in (ab.loaded_library(np.negative), ab.MemoryType.LOADED_LIBRARY, ab.loaded_library):
        code = f"import pickle, arraybridge; pickle.loads({pickle.dumps(thing)!r})"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert found.returncode and "loaded_library" in found.stderr.splitlines()[-1], found.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[numpy]", "there is already a table [numpy] of frameworks.toml"),
        (TABLE.format(name="twice").replace("twice.Array", "torch.Tensor"),
         "[torch] of frameworks"),
        (TABLE.format(name="x").replace("data.values", "datum.values"),
         "<text>:8:13: unknown name"),
        ("", "has no tables"),
        ("[x", "<text>:1:"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_and_leave_nothing_behind(text, words):
    before = len(ab.frameworks())
    error = bridges.raises(ab.InvalidTableError, lambda: ab.load_table(text=text), words)
    assert error.mistakes and isinstance(error, ValueError) and len(ab.frameworks()) == before


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        ab.load_table(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ab.InvalidTableError, match="is not text in UTF-8"):
        ab.load_table(tmp_path / "binary.toml")
    for given in ({}, {"path": "x", "text": "y"}):
        with pytest.raises(TypeError, match="and not both"):
            ab.load_table(**given)


SHORT = """
[short]
classes = ["loaded_library.Rows"]
module = "loaded_library"
dtypes = ["uint8", "float32"]
to_numpy = "data.values"
from_numpy = "module.Rows(data)"
ready = "data.computed()"
lazy = true
"""


def test_a_table_leaves_out_what_most_say(library):
    """Its title, the memory, the names of dtypes, the error of memory, and the way to slices."""

    class Rows:
        def __init__(self, values, is_computed=False):
            self.values, self.is_computed = np.array(values), is_computed

        dtype = property(lambda self: self.values.dtype)
        shape = property(lambda self: self.values.shape)

        def __iter__(self):
            return iter(self.values)  # which are no arrays of the framework

        def __getitem__(self, index):
            return Rows(self.values[index])

        def computed(self):
            return Rows(self.values, True)

    Rows.__module__, Rows.__qualname__, library.Rows = "loaded_library", "Rows", Rows
    assert ab.load_table(text=SHORT) == ["short"]
    (found,) = (each for each in ab.frameworks() if each["name"] == "short")
    assert (found["title"], found["memory"]) == ("short", "host")
    stack = np.arange(24, dtype="f4").reshape(2, 3, 4)
    slices = ab.unstack_slices(stack, "short", 0)
    assert [type(each) for each in slices] == [Rows] * 2
    assert [each.values.tolist() for each in slices] == stack.tolist()
    calls = []

    @ab.short(on_oom=("clear",))
    def other(image):
        calls.append(image.dtype)
        if len(calls) == 1:
            raise MemoryError
        return Rows(image.values)

    # What `ready` makes of a result is the result.
    assert other(stack[0]).is_computed and calls == [np.dtype("f4")] * 2


def test_the_tables_of_a_process_have_an_end():
    found = bridges.python(
        """
        import sys
        import arraybridge as ab
        for number in range(64):
            ab.load_table(text=sys.argv[1].replace("?", str(number)))
        try:
            ab.load_table(text=sys.argv[1].replace("?", "64"))
        except ab.InvalidTableError as error:
            print(error, len(ab.frameworks()))
        """,
        TABLE.format(name="t?"),
    )
    assert f"64 tables at most {len(bridges.CPU_FRAMEWORKS) + 1 + 64}" in found.stdout, found.stderr


def test_a_rust_function_takes_its_arrays(library):
    rust = bridges.tests_extension()
    image = library.make(np.arange(6, dtype="float32").reshape(2, 3))
    mean = rust.mean_of([image, np.zeros((2, 3), "float32")])
    assert type(mean) is library.Array and mean.values.tolist() == (image.values / 2).tolist()
    assert rust.halves_of({"a": library.make(np.ones(2, "float32"))})["a"].values.tolist() == [
        0.5,
        0.5,
    ]


@pytest.mark.parametrize(
    ("old", "new", "shape", "key"),
    [
        # As a library that drops an axis of length one, or has no empty rows.
        ("module.make(data)", "module.make(data.squeeze())", (5, 1), "from_numpy"),
        ("data.values", "data.values.squeeze()", (5, 1), "to_numpy"),
        ("module.make(data)", "module.turned(data)", (3, 0), "from_numpy"),
    ],
)
def test_an_array_of_another_shape_is_refused_by_the_key(tmp_path, old, new, shape, key):
    code = LIBRARY + "\nimport sys; sys.modules['changed'] = sys.modules['__main__']\n"
    table = TABLE.format(name="changed").replace("changed.Array", "__main__.Array")
    use = """
import arraybridge as ab, numpy as np
ab.load_table(text=sys.argv[1])
usual = np.arange(6.0).reshape(2, 3)
assert ab.convert(ab.convert(usual, "changed"), "numpy").tolist() == usual.tolist()
there = ab.convert(np.zeros(eval(sys.argv[2])), "changed")
ab.convert(there, "numpy")
"""
    arguments = (table.replace(old, new), repr(shape))
    found = bridges.python(code + use, *arguments)
    assert "FrameworkTableError" in found.stderr and f"`{key}` of [changed]" in found.stderr
    assert bridges.python(code + use, table, repr(shape)).returncode == 0


def test_a_shape_that_the_table_refuses_does_not_reach_the_framework():
    code = (
        LIBRARY
        + """
import arraybridge as ab, numpy as np, pytest, sys
sys.modules['changed'] = sys.modules['broken'] = sys.modules['__main__']
def make(values): made.append(values.shape); return Array(values.squeeze())
ab.load_table(text=sys.argv[1])
made = []
for shape in (5, 1), (7, 1, 2):
    for use in (ab.convert, ab.explain, lambda x, to: ab.changed(lambda x: x)(x)):
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            use(np.zeros(shape), "changed")
        words = f"the shape {shape}, since `shape[1] != 1` is false; reshape it, or convert it"
        assert words in str(caught.value) and not made, caught.value
with pytest.raises(ab.UnsupportedArrayError, match="holds no array of the shape"):
    ab.stack_slices([np.zeros((1, 7)), np.ones((1, 7))], "changed", 0)
assert ab.convert(np.zeros(5), "changed").shape == (5,)
with pytest.raises(ab.UnsupportedArrayError, match="`numpy.prod.shape. < 99` is false"):
    ab.convert(np.zeros((10, 10)), "changed")
broken = sys.argv[1].replace("[changed]", "[broken]").replace("__main__.Array", "__main__.B")
ab.load_table(text=broken.replace("shape[1]", "shape.one"))
with pytest.raises(ab.FrameworkTableError, match="`shapes` of .broken. has `shape.one != 1`"):
    ab.convert(np.zeros(5), "broken")
"""
    )
    table = TABLE.format(name="changed").replace("changed.Array", "__main__.Array")
    table += 'shapes = ["shape[1] != 1", "numpy.prod(shape) < 99"]\n'
    found = bridges.python(code, table)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("old", "new", "there"),
    [
        ('"data.values"', '"data.valuse"', "<text>:8:18: there is no `valuse`; write `values`"),
        ("module.make(", "module.meke(", "<text>:9:22: there is no `meke`; write `make`"),
        (
            'dtype = "name"',
            'dtype = "name"\ndtype_of = "data.dtypee"',
            "<text>:8:18: there is no `dtypee`; write `dtype`; correct the table",
        ),
        ("module.make(", "module.zzz(", "<text>:9:22: there is no `zzz`)"),
        # An attribute that the framework itself lacks is in no table.
        ("module.make(data)", "module.broken(data)", "no attribute 'of_theirs')"),
        # Nor is that of another object, even if an array has one of that name.
        ("module.make(data)", "module.torn(data)", "no attribute 'values')"),
    ],
)
def test_a_misspelt_name_is_found_where_it_stands_when_it_is_used(old, new, there):
    code = LIBRARY + "\ndef broken(values): return values.of_theirs\n"
    code += "\ndef torn(values): return values.values\n"
    code += "\nimport sys; sys.modules['changed'] = sys.modules['__main__']\n"
    table = TABLE.format(name="changed").replace("changed.Array", "__main__.Array")
    use = """
import arraybridge as ab, numpy as np
ab.load_table(text=sys.argv[1])
try:
    ab.convert(ab.convert(np.ones(3), "changed"), "numpy")
except ab.MemoryConversionError as error:
    print(error.reason)
"""
    found = bridges.python(code + use, table.replace(old, new))
    assert there in found.stdout and found.stdout.count("there is no") == there.count("there is no")
