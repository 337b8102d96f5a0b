"""Rust functions that take and return containers of arrays (the crate tests/extension)."""

import collections
import inspect
import pickle
import types

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge.stubs import stub


def ones(*shape):
    return np.ones(shape, "float32")


@pytest.mark.parametrize("framework", bridges.HOST)
def test_a_container_holds_arrays_of_every_framework(ext, framework):
    images = [bridges.make(framework, ones(2, 3) * i) for i in (1, 2)]
    mean = ext.mean_of([*images, ones(2, 3) * 6])
    assert ab.detect_memory_type(mean) == framework
    assert np.array_equal(ab.convert(mean, "numpy"), ones(2, 3) * 3)


@pytest.mark.parametrize("make", [list, tuple, collections.deque])
def test_a_vec_is_any_sequence_of_arrays(ext, make):
    assert ext.mean_of(make([ones(2, 2), ones(2, 2) * 3])).tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("make", [dict, collections.OrderedDict, types.MappingProxyType])
def test_a_map_is_any_mapping_of_names(ext, make):
    halves = ext.halves_of(make({"a": ones(2), "b": ones(1) * 4}))
    assert {name: half.tolist() for name, half in halves.items()} == {"a": [0.5, 0.5], "b": [2.0]}
    assert ext.halves_of({}) == {}


def test_an_option_of_a_tuple_may_be_left_out(ext):
    assert ext.difference() is ext.difference(None) is None
    assert ext.difference((ones(3), ones(2))) == 1.0


def test_containers_are_nested(ext):
    rows = [(ones(1), ones(2)), [ones(3), ones(4)]]
    assert ext.lengths(rows) == [(1, 2), (3, 4)]
    assert ext.lengths([]) == []


def test_the_first_array_in_a_container_decides_the_element_type(ext):
    assert ext.lengths_of([ones(2), None, ones(3)]) == (5, 4)
    assert ext.lengths_of([np.ones(2, "uint8")]) == (2, 1)
    with pytest.raises(TypeError, match=r"'arrays\[1\]': expected a .* float32 array"):
        ext.lengths_of([ones(2), np.ones(2, "uint8")])
    with pytest.raises(TypeError, match=r"'arrays': expected an array of uint8 or float32, not of"):
        ext.lengths_of([np.ones(2)])
    with pytest.raises(TypeError, match="'arrays': an array is needed"):
        ext.lengths_of([])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda ext: ext.mean_of([ones(2, 2), ones(2)]), TypeError, "'images[1]': expected a 2-d"),
        (lambda ext: ext.mean_of(ones(2, 2, 2)), TypeError, "'images': expected a list or a tuple"),
        (lambda ext: ext.mean_of("ab"), TypeError, "'images': expected a list or a tuple of"),
        (lambda ext: ext.mean_of(None), TypeError, "'images': expected a list or a tuple of"),
        (lambda ext: ext.mean_of([None]), ab.UnsupportedArrayError, "'images[0]': "),
        (lambda ext: ext.halves_of([ones(1)]), TypeError, "'images': expected a dict of arrays"),
        (lambda ext: ext.halves_of({1: ones(1)}), TypeError, "names as the keys of the dict, not"),
        (lambda ext: ext.halves_of({"a": ones(1, 1)}), TypeError, "'images[\"a\"]': expected a 1-"),
        (lambda ext: ext.difference((ones(1),)), ValueError, "'pair': expected 2 arrays, not 1"),
        (lambda ext: ext.lengths([[ones(1)] * 3]), ValueError, "'rows[0]': expected 2 arrays, not"),
        (lambda ext: ext.lengths([[ones(1), 0]]), ab.UnsupportedArrayError, "'rows[0][1]': "),
    ],
)  # fmt: skip
def test_an_error_names_the_array_in_the_container(ext, call, error, text):
    with pytest.raises(error) as caught:
        call(ext)
    assert text in str(caught.value)


@pytest.mark.parametrize("framework", ("numpy", "torch"))
def test_arrays_in_a_container_are_claimed(ext, framework):
    out = bridges.make(framework, np.zeros(8, "float32"))
    with pytest.raises(ab.AliasedArgumentError, match="writes to 'out'.*that of 'arrays'"):
        ext.add_all([ones(4), out[:4]], out[2:6])
    ext.add_all([ones(4), out[4:]], out[:4])
    assert ab.convert(out, "numpy").tolist() == [1] * 4 + [0] * 4
    whole = np.zeros(6, "int64")
    whole = bridges.make(framework, whole)
    ext.increment_all([whole[:3], whole[3:]])
    with pytest.raises(ab.AliasedArgumentError, match="writes to an array of 'arrays'.*another"):
        ext.increment_all([whole[:4], whole[3:]])
    assert ab.convert(whole, "numpy").tolist() == [1] * 6


@pytest.mark.parametrize("framework", ("numpy", "torch"))
def test_the_claim_on_a_container_lasts_as_long_as_the_call(ext, framework):
    data = bridges.make(framework, ones(4))
    arrays = {"first": ones(2), "second": data}

    def write():
        arrays.clear()
        with pytest.raises(ab.AliasedArgumentError, match="during_all.. reads as 'arrays'"):
            ext.add_into(ones(4), data)

    assert ext.during_all(arrays, write) == 6.0
    ext.add_into(ones(4), data)


def test_memory_of_a_container_stays_where_it_is_while_python_runs(torch, ext):
    data = torch.ones(4)

    def release():
        with pytest.raises(RuntimeError, match="resiz"):
            data.untyped_storage().resize_(0)

    assert ext.during_all({"data": data}, release) == 4.0


def test_bools_of_a_container_are_copied_where_python_runs(ext):
    mask = np.array([True, False])

    def write():
        mask.view("uint8")[:] = 2

    assert [result.tolist() for result in ext.inverted_all([mask], write)] == [[False, True]]


def test_containers_of_results_hold_arrays_of_the_declared_framework(torch, ext):
    ramps = ext.ramps([1, 3])
    assert [ab.detect_memory_type(ramp) for ramp in ramps] == ["torch", "torch"]
    assert ramps[1].tolist() == [0, 1, 2]
    (first, none), named = ext.nested(2)
    assert (first.tolist(), none) == ([1, 1], None)
    assert [ab.detect_memory_type(array) for array in named["pair"]] == ["torch", "torch"]


def test_signatures_show_containers(ext):
    def shown(function):
        return str(inspect.signature(function)).replace("'", "")

    assert shown(ext.mean_of).startswith("(images: list[Array[float32, 2]]")
    assert shown(ext.halves_of).endswith("-> dict[str, Array[float32, 1]]")
    assert "pair: tuple[Array[float32, 1], Array] | None = None" in shown(ext.difference)
    assert "rows: list[list[Array[float32, 1]]]" in shown(ext.lengths)


def test_a_call_slice_by_slice_takes_the_first_array_of_a_container(ext):
    stack = np.stack([ones(2, 2), ones(2, 2) * 3])
    sliced = ext.mean_of([stack], slice_by_slice=True)
    assert np.array_equal(sliced, stack)


@pytest.mark.parametrize("framework", bridges.HOST)
def test_a_struct_of_arrays_is_a_named_tuple(ext, framework):
    image = np.array([[1, 2], [3, 4]], "uint8")
    extent = ext.extent_of(bridges.make(framework, image))
    assert type(extent) is ext.Extent
    assert ab.detect_memory_type(extent.image) == framework
    assert bridges.difference(framework, extent.image, image) is None
    assert extent.range == (1.0, 4.0)
    assert ab.detect_memory_type(extent.parts[0]) == framework
    assert extent._fields == ("image", "range", "parts")


def test_named_tuples_are_in_containers(torch, ext):
    extents, none = ext.extents_of([ones(1, 2), ones(2, 1)])
    assert none is None
    assert [tuple(extent.image.shape) for extent in extents] == [(1, 2), (2, 1)]
    assert {ab.detect_memory_type(extent.image) for extent in extents} == {"torch"}
    assert ext.plain_ones(2) == [{"value": 1.0}] * 2


def test_a_named_tuple_is_a_class_of_the_module(ext):
    assert (ext.Extent.__module__, ext.Extent.__qualname__) == ("extension", "Extent")
    assert ext.Extent.__doc__ == "The range of an image, and where it is."
    extent = ext.extent_of(ones(1, 1))
    assert str(pickle.loads(pickle.dumps(extent))) == str(extent)


def test_stubs_have_named_tuples(ext, tmp_path):
    text = stub(ext)
    said = bridges.type_checked(
        tmp_path,
        text,
        "from extension import Extent, extents_of, extent_of\n"
        "reveal_type(extent_of(0).range)\nreveal_type(extents_of([])[0])\nextent_of(0).other\n",
    )
    for line in (
        'use.py:2: note: Revealed type is "tuple[float, float',
        'use.py:3: note: Revealed type is "list[tuple[',
        'use.py:4: error: "Extent" has no attribute "other"',
        "Found 1 error in 1 file",
    ):
        assert line in said, said
    assert "class Extent(NamedTuple):\n" in text
    assert 'image: Annotated[Any, "float32, 2"]\n' in text
    assert "def plain_ones(n: int" in text and "-> list[Any]:" in text
