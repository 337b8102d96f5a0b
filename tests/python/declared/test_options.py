"""The checks of the options of declarations."""

import ast
import inspect
import pathlib
import sys

import arraybridge
import numpy
import pytest
from arraybridge._declared.options import OPTIONS

ONLY_ONE = "give only one of "
TILES = "tiles must be a tuple with the length of a tile for each of the last axes"
AXES = "slice_axes must be a tuple with the axes of a slice, by index or by name"
REFUSED = (
    ({"jion": "sum"}, TypeError, 'unknown option "jion"; did you mean "join"?'),
    ({"colour": "red"}, TypeError, 'unknown option "colour"; known are input_type, output_type'),
    ({"device": "cpu", "gpu_id": 0}, TypeError, "device demands a device and gpu_id prefers one"),
    ({"slice_by_slice": True, "slice_by_slice_default": True}, TypeError, ONLY_ONE),
    ({"dtype_conversion": "native", "dtype_config_default": 1}, TypeError, ONLY_ONE),
    ({"dtype_config_default": 1}, TypeError, "must be a DtypeConversionConfig"),
    ({"join": "sum"}, ValueError, "join says how the parts of a split call are joined"),
    ({"join": "sum", "split_axis": None}, ValueError, "join says how"),
    ({"arrays": 1}, TypeError, "arrays must be the name of a parameter or a sequence of names"),
    ({"sliced": {"x"}}, TypeError, "sliced must be the name of a parameter or a sequence"),
    ({"writes": ("x", 1)}, TypeError, "writes must be the name of a parameter or a sequence"),
    ({"lead": ("x",)}, TypeError, "lead must be the name of a parameter"),
    ({"host": 1}, TypeError, "host must be a function, not int"),
    ({"on_oom": 1}, TypeError, "on_oom must be a name or a sequence of names"),
    ({"on_oom": ("clear", "pray")}, ValueError, 'unknown rung "pray" in on_oom; known are clear, '),
    ({"split_axis": "x"}, TypeError, "split_axis must be an int, not str"),
    ({"split_axis": True}, TypeError, "split_axis must be an int, not bool"),
    ({"split_axis": 2 * sys.maxsize}, TypeError, "split_axis must be an int, not int"),
    ({"slice_axes": 1}, TypeError, AXES),
    ({"slice_axes": ()}, TypeError, AXES),
    ({"slice_axes": "yx"}, TypeError, AXES),
    ({"slice_axes": (0, 1.0)}, TypeError, AXES),
    ({"slice_axes": (0, True)}, TypeError, AXES),
    ({"halo": 1}, ValueError, "halo is an option of tiles; add tiles"),
    ({"workers": 2}, ValueError, "workers is an option of tiles; add tiles"),
    ({"tiles": 4}, TypeError, TILES),
    ({"tiles": ()}, ValueError, TILES),
    ({"tiles": (None, None)}, ValueError, TILES),
    ({"tiles": (4.0, 4)}, TypeError, "tiles must be whole numbers, not float"),
    ({"tiles": (4, True)}, TypeError, "tiles must be whole numbers, not bool"),
    ({"tiles": (4, 0)}, ValueError, "tiles must be a whole number of at least 1, not 0"),
    ({"tiles": (-1,)}, ValueError, "tiles must be a whole number of at least 1, not -1"),
    ({"tiles": "ab"}, TypeError, TILES),
    ({"tiles": (4, 4), "halo": -1}, ValueError, "halo must be a whole number of at least 0"),
    ({"tiles": (4, 4), "halo": (1,)}, ValueError, "halo has 1 elements and tiles has 2"),
    ({"tiles": (4, None), "halo": (1, 1)}, ValueError, "halo must be 0 for an axis that is not"),
    ({"tiles": (4, 4), "workers": 0}, ValueError, "workers must be a whole number of at least 1"),
    ({"tiles": (4, 4), "pad": "wrap"}, ValueError, "unknown pad 'wrap'; use \"reflect\""),
    ({"tiles": (4, 4), "pad": 3}, ValueError, 'use "reflect", "edge" or "constant"'),
    ({"tiles": (4, 4), "pad": True}, ValueError, 'use "reflect", "edge" or "constant"'),
    ({"pad": "edge"}, ValueError, "pad is an option of tiles"),
    ({"writable": True, "copy": False}, ValueError, "writable=True copies the results"),
    ({"writable": 1}, TypeError, "writable must be True or False, not int"),
    ({"keep": "always"}, TypeError, "keep must be True, False or \"strict\", not 'always'"),
)  # fmt: skip


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=str)
def test_an_option_is_refused_where_it_is_written(options, error, message):
    with pytest.raises(error) as refused:
        arraybridge.numpy(**options)
    assert message in str(refused.value)


@pytest.mark.parametrize("options", (
    {"join": "sum", "tiles": (4, 4)},
    {"arrays": "x", "lead": "x", "sliced": ["x"], "writes": ("x",)},
    {"on_oom": "clear", "split_axis": numpy.int8(-1), "clear_cuda_cache": True},
    {"on_oom": ["host", "split"], "oom_recovery": numpy.bool_(True)},
    {"slice_axes": [0, "y"]},
    {"slice_axes": (numpy.int64(-2), -1)},
    {"tiles": [numpy.int64(4), None], "halo": [1, 0], "workers": numpy.int8(2), "pad": "edge"},
    {"tiles": (2 * sys.maxsize, 4), "halo": 2 * sys.maxsize},
    dict.fromkeys(("tiles", "halo", "workers", "pad", "join", "arrays", "lead", "on_oom")),
), ids=str)  # fmt: skip
def test_options_of_every_form_are_taken(options):
    assert arraybridge.numpy(**options)(lambda x: x)(numpy.ones((8, 8))).sum() == 64


def test_a_docstring_describes_each_option():
    section = arraybridge.numpy.__doc__.split("Parameters\n", 1)[1].split("Returns\n", 1)[0]
    heads = [line for line in section.splitlines() if line and line[0] not in " -"]
    described = [name for head in heads for name in head.split(" : ")[0].split(", ")]
    assert described == ["function", *(option.name for option in OPTIONS)]


def test_type_checkers_know_the_options_of_the_list_and_the_dtypes():
    stub = ast.parse(pathlib.Path(arraybridge.__file__).with_name("decorators.pyi").read_text())
    named = {getattr(node, "name", None): node for node in stub.body}
    fields = [each.target.id for name in ("_Settings", "_Options") for each in named[name].body]
    # Each framework has a signature of its own for it, with the type of its arrays.
    fields.append("output_type")
    assert sorted(fields) == sorted(option.name for option in OPTIONS)
    (written,) = [
        node.value for node in stub.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "_Conversion"
    ]  # fmt: skip
    names = [node.value for node in ast.walk(written) if isinstance(node, ast.Constant)]
    for name in names:
        arraybridge.numpy(dtype_conversion=name)
    with pytest.raises(ValueError) as caught:
        arraybridge.numpy(dtype_conversion="preserv")
    assert set(str(caught.value).split(": ")[-1].split(", ")) == {*names} - {
        "default", "preserve", "native",
    }  # fmt: skip


def test_editors_and_notebooks_find_the_options_in_the_signature():
    shown = inspect.signature(arraybridge.torch).parameters
    assert [*shown] == ["function", *(option.name for option in OPTIONS)]
    assert inspect.signature(arraybridge.torch(tiles=(4, 4))) == inspect.signature(
        arraybridge.torch
    )
    assert shown["halo"].kind is shown["halo"].KEYWORD_ONLY
