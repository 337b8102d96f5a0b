"""Objects of no framework that NumPy can see as arrays."""

import array
import decimal
import enum
import fractions
import pathlib
import sys
import types

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge import stack_utils
from producers import Exporter

VALUES = np.arange(12, dtype="uint8").reshape(3, 4)


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return VALUES


class WithInterface:
    @property
    def __array_interface__(self):
        return VALUES.__array_interface__


def data_frame():
    return pytest.importorskip("pandas").DataFrame(VALUES)


def series():
    return pytest.importorskip("pandas").Series(VALUES[0])


def data_array():
    return pytest.importorskip("xarray").DataArray(VALUES, dims=("y", "x"))


def image():
    return pytest.importorskip("PIL.Image").fromarray(VALUES)


LIKES = {
    "memoryview": lambda: memoryview(VALUES),
    "array.array": lambda: array.array("B", VALUES[0].tobytes()),
    "__array__": WithArray,
    "__array_interface__": WithInterface,
    "__dlpack__": lambda: Exporter(VALUES),
    "Tensor": lambda: ab.Tensor(VALUES),
    "DataFrame": data_frame,
    "Series": series,
    "DataArray": data_array,
    "PIL": image,
}


@pytest.mark.parametrize("make", LIKES.values(), ids=LIKES)
@pytest.mark.parametrize("name", ("numpy", "torch", "jax"))
def test_what_is_like_an_array_is_converted_as_numpy_sees_it(name, make):
    exports = make in (LIKES["__dlpack__"], LIKES["Tensor"])
    expected = np.from_dlpack(make()) if exports else np.asarray(make())
    seen = []

    @getattr(ab, name)(output_type="input")
    def f(first, *rest, last=None):
        seen.extend([first, *rest, *([] if last is None else last)])
        return first

    for call in (lambda: f(make()), lambda: f(1, make()), lambda: f(1, last=[make()])):
        seen.clear()
        result = call()
        found = [x for x in seen if not isinstance(x, int)]
        assert [bridges.difference(name, x, expected) for x in found] == [None]
    # The result is like the lead, if that is an object with an array inside.
    is_wrapper = make in (data_frame, series, data_array)
    assert type(f(make())) is (type(make()) if is_wrapper else np.ndarray) and result == 1
    assert bridges.difference(name, ab.convert(make(), name), expected) is None
    assert ab.explain(make(), name).shape == expected.shape


@pytest.mark.parametrize("name", [n for n in LIKES if n not in ("array.array", "Series")])
def test_it_can_be_a_slice_or_a_stack(torch, name):
    like = LIKES[name]()
    for framework in ("numpy", "torch"):
        stack = ab.stack_slices([like, VALUES, like], framework)
        assert bridges.difference(framework, stack, np.stack([VALUES] * 3)) is None
    joined = stack_utils.concatenate([like, VALUES], 0)
    assert (joined == np.concatenate([VALUES, VALUES])).all()
    assert (stack_utils.part(like, 1, 1, 3) == VALUES[:, 1:3]).all()
    with pytest.raises(ValueError, match=r"3D.*\(3, 4\)"):
        ab.unstack_slices(like, "torch")
    with pytest.raises(ValueError, match=r"3D.*\(3, 4\)"):
        ab.process_slices(like, lambda x: x)


def test_a_stack_that_is_like_an_array_is_taken_apart():
    cube = np.arange(24, dtype="uint8").reshape(2, 3, 4)
    for like in (ab.Tensor(cube), memoryview(cube)):
        assert [s.tolist() for s in ab.unstack_slices(like, "numpy")] == cube.tolist()
        assert (ab.process_slices(like, lambda x: x + 1) == cube + 1).all()


def test_it_can_be_the_lead_of_slices():
    xarray = pytest.importorskip("xarray")
    stack = xarray.DataArray(np.stack([VALUES, VALUES + 1]))
    f = ab.numpy(lambda slice: slice + 1)
    assert np.array_equal(f(stack, slice_by_slice=True), stack.to_numpy() + 1)


class Color(enum.Enum):
    RED = 1


UNTOUCHED = [
    "text", b"bytes", bytearray(b"bytes"), pathlib.Path("a"), 1, 1.5, 2j, True, None, [1, 2], [],
    (3, 4), {"a": 1}, {1}, range(3), Color.RED, decimal.Decimal(1), fractions.Fraction(1, 2),
    np.float32(1.5), np.float32, np.dtype("u1"), types.SimpleNamespace(a=1), slice(3), WithArray,
]  # fmt: skip


@pytest.mark.parametrize("value", UNTOUCHED, ids=repr)
def test_everything_else_reaches_the_function_as_it_is(value):
    f = ab.numpy(lambda image, value: value)
    for lead in (VALUES, memoryview(VALUES)):
        assert f(lead, value) is value
        assert f(lead, value=value) is value


def test_a_list_of_numbers_is_an_array_where_the_declaration_says_so(torch):
    f = ab.torch(arrays=("kernel",))(lambda image, kernel: (image, kernel))
    image, kernel = f([1, 2], [[1, 2], [3, 4]])
    assert (
        image == [1, 2] and bridges.difference("torch", kernel, np.array([[1, 2], [3, 4]])) is None
    )
    _, kernel = f(0, kernel=(1.0, 2.0))
    assert kernel.tolist() == [1, 2]
    # A list of arrays is still a list of arrays, and an empty one says nothing.
    _, kernels = f(0, [VALUES, VALUES])
    assert [type(k).__name__ for k in kernels] == ["Tensor"] * 2
    assert f(0, [])[1] == []
    with pytest.raises(ab.UnsupportedArrayError, match="list cannot be converted"):
        f(0, [[1], [2, 3]])
    with pytest.raises(ab.UnsupportedArrayError, match="builtins.list .* dtype <U1"):
        f(0, ["a"])


class Lazy(WithArray):
    """Stands for an array of Dask."""


Lazy.__module__, Lazy.__qualname__ = "dask.array.core", "Array"


def object_frame():
    return pytest.importorskip("pandas").DataFrame({"a": [1, 2], "b": ["x", "y"]})


def chunked():
    pytest.importorskip("dask")
    return data_array().chunk()


def data_set():
    return pytest.importorskip("xarray").Dataset({"a": ("x", [1, 2])})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Lazy, r"dask.array.core.Array cannot be converted: .* pass \.compute\(\)"),
        (chunked, r"dask.*\.compute\(\)"),
        (object_frame, "DataFrame cannot be converted: .* dtype object"),
        (data_set, "Dataset cannot be converted: NumPy cannot make an array of it"),
    ],
)
def test_what_numpy_does_not_see_as_numbers_is_refused_by_name(make, text):
    value = make()
    f = ab.numpy(lambda image, value: value)
    for call in (
        lambda: f(VALUES, value),
        lambda: f(VALUES, value=value),
        lambda: f(VALUES, [value]),
        lambda: ab.convert(value, "numpy"),
        lambda: ab.explain(value, "numpy"),
    ):
        with pytest.raises(ab.UnsupportedArrayError, match=text):
            call()
    # A declaration can leave it to the function.
    with pytest.raises(ab.UnsupportedArrayError, match="list the other parameters in arrays="):
        f(VALUES, value)
    assert ab.numpy(arrays=("image",))(lambda image, value: value)(VALUES, value) is value


def test_a_class_is_examined_once():
    class Counted(type):
        looked = 0

        def __getattribute__(cls, name):
            if name == "__array__":
                Counted.looked += 1
            return super().__getattribute__(name)

    class Plain(metaclass=Counted):
        pass

    f = ab.numpy(lambda image, value: value)
    f(VALUES, Plain())
    looked = Counted.looked
    assert looked > 0
    for _ in range(3):
        f(VALUES, Plain())
        f(VALUES, value=[Plain()])
    assert Counted.looked == looked


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="threads have counts of references of their own",
)
@pytest.mark.parametrize("made", [False, True])
def test_numpy_is_asked_once_where_the_references_say_whose_the_memory_is(torch, made):
    class Asked:
        def __init__(self):
            self.values, self.times = VALUES.copy(), 0

        def __array__(self, dtype=None, copy=None):
            self.times += 1
            return (self.values + 0).T if made else self.values.T

    data = Asked()
    shared = ab.convert(data, "torch").data_ptr() == data.values.ctypes.data
    assert (shared, data.times) == (not made, 1)
    if made:
        with pytest.raises(ab.CopyRequiredError):
            ab.convert(data, "torch", copy=False)


def test_memory_that_is_read_only_stays_so_or_is_copied(torch):
    seen = memoryview(b"abcd")
    assert not ab.convert(seen, "numpy").flags.writeable
    tensor = ab.convert(seen, "torch")
    tensor[0] = 0
    assert bytes(seen) == b"abcd"
