"""Declared functions with random arguments: what NumPy gives, or a typed error, and no change.

`ARRAYBRIDGE_EXAMPLES=20000` tries so many of each, and others each time.
"""

import os
import warnings
from typing import Any, NamedTuple

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views import views

EXAMPLES = os.environ.get("ARRAYBRIDGE_EXAMPLES")
# What an array raises that is taken as a number is its own: torch's is a RuntimeError.
ERRORS = (TypeError, ValueError, OverflowError, RuntimeError, ab.MemoryConversionError)

searched = settings(
    max_examples=int(EXAMPLES or 30),
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")


@pytest.fixture(scope="module", autouse=True)
def sixty_four_bits():
    with bridges.x64(True):
        yield


class Array(NamedTuple):
    """An array of a framework or a `Tensor`, and its values in the machine's byte order."""

    name: str
    array: Any
    values: np.ndarray

    def is_unchanged(self):
        """Whether it has the values that it was made with."""
        if self.name == "Tensor":
            return bridges.difference("numpy", np.asarray(self.array), self.values) is None
        return bridges.difference(self.name, self.array, self.values) is None

    def is_one(self, dtypes, ndim):
        """Whether it has one of the dtypes and so many axes."""
        return self.values.dtype.name in dtypes and self.values.ndim == ndim


@st.composite
def arrays(draw, dtypes=bridges.DTYPES, axes=4):
    view = draw(views(dtypes, axes))
    dtype = view.dtype.newbyteorder("=").name
    hosts = [name for name in bridges.HOST if name in bridges.INSTALLED]
    names = [name for name in hosts if bridges.has_dtype(name, dtype)]
    name = draw(st.sampled_from([*names, "numpy", "Tensor"]))
    values = np.array(view, dtype=view.dtype.newbyteorder("="))
    if name == "numpy":
        array = view
    else:
        array = ab.Tensor(view) if name == "Tensor" else bridges.make(name, values)
    return Array(name, array, values)


others = st.sampled_from([None, "text", b"bytes", 3, -1.5, 2j, True, "", slice(2), len])


@st.composite
def calls(draw, leaves, names):
    """Positional arguments and keywords, of a few arrays that occur again and again."""
    pool = draw(st.lists(leaves, min_size=1, max_size=3))
    leaf = st.one_of(st.sampled_from(pool), st.sampled_from(pool), others)
    nested = st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
        ),
        max_leaves=4,
    )
    positional = draw(st.lists(nested, max_size=4))
    return pool, positional, draw(st.dictionaries(st.sampled_from(names), nested, max_size=3))


def given_of(tree):
    """The argument that a tree stands for."""
    if isinstance(tree, Array):
        return tree.array
    if isinstance(tree, dict):
        return {key: given_of(value) for key, value in tree.items()}
    return type(tree)(map(given_of, tree)) if isinstance(tree, (list, tuple)) else tree


def members(tree):
    """Everything in a tree, each thing after what contains it."""
    yield tree
    inside = tree.values() if isinstance(tree, dict) else tree
    if isinstance(tree, (dict, list, tuple)) and not isinstance(tree, Array):
        for value in inside:
            yield from members(value)


def check_seen(name, tree, given, seen):
    """Checks what a function of a framework got for an argument, or inside one."""
    if isinstance(tree, (dict, list, tuple)) and not isinstance(tree, Array):
        assert type(seen) is type(tree) and len(seen) == len(tree)
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            check_seen(name, tree[key], given[key], seen[key])
    elif not isinstance(tree, Array) or tree.name == name:
        assert seen is given
    elif bridges.has_dtype(name, tree.values.dtype.name):
        assert bridges.difference(name, seen, tree.values) is None
    else:
        check_narrowed(name, tree.values, seen)


def check_narrowed(name, values, seen):
    dtype, shape, bits = bridges.read(name, seen)
    narrowed = np.frombuffer(bits, bridges.np_dtype(dtype)).reshape(shape).astype("float64")
    expected = values.astype(bridges.np_dtype(dtype)).astype("float64")
    assert np.array_equal(narrowed, expected, equal_nan=True)


# --- Python functions


class Seen:
    """The arguments of a call, one after the other. As a result it stays as it is."""

    def __init__(self, *arguments):
        self.arguments = arguments


def two(a, b=None):
    return Seen(a, b)


def one_of_each(a, /, b, *, c=None):
    return Seen(a, b, c)


def anything(*rest, **more):
    return Seen(*rest, *more.values())


def mixed(a, *rest, d=None, **more):
    return Seen(a, *rest, d, *more.values())


FUNCTIONS = (two, one_of_each, anything, mixed)


@pytest.mark.parametrize("name", bridges.HOST)
@searched
@given(st.sampled_from(FUNCTIONS), calls(arrays(), "abcdef"))
def test_a_python_function_gets_what_it_was_called_with(name, function, call):
    pool, positional, keywords = call
    args, kwargs = given_of(positional), given_of(keywords)
    held = [id(member) for member in (*members(args), *members(kwargs))]
    declared = getattr(ab, name)(dtype_conversion="native")(function)
    try:
        bound = function(*positional, **keywords)
    except TypeError:
        bound = None
    lacking = any(not bridges.has_dtype(name, x.values.dtype.name) for x in pool)
    try:
        seen = declared(*args, **kwargs)
    except TypeError:
        assert bound is None
    except ab.UnsupportedDtypeError:
        assert lacking
    else:
        assert bound is not None
        plain = function(*args, **kwargs)
        for each in zip(bound.arguments, plain.arguments, seen.arguments, strict=True):
            check_seen(name, *each)
    assert held == [id(member) for member in (*members(args), *members(kwargs))]
    assert all(array.is_unchanged() for array in pool)


@pytest.mark.parametrize("name", bridges.HOST)
@searched
@given(
    st.lists(arrays(("uint8", "int32"), axes=3), min_size=1, max_size=4),
    st.integers(0, 3),
    st.data(),
)
def test_a_python_function_computes_what_numpy_does(name, pool, scale, data):
    picked = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4))
    by_name = data.draw(st.dictionaries(st.sampled_from("xyz"), st.sampled_from(pool), max_size=2))

    def times(*rest, scale, more):
        return [array * scale for array in (*rest, *more.values())]

    declared = ab.memory_types(name, "numpy", dtype_conversion="native")(times)
    found = declared(*given_of(picked), scale=scale, more=given_of(by_name))
    values = {key: x.values for key, x in by_name.items()}
    expected = times(*(x.values for x in picked), scale=scale, more=values)
    for array, wanted in zip(found, expected, strict=True):
        assert isinstance(array, (np.ndarray, np.generic)) and array.dtype == wanted.dtype
        assert np.array_equal(array, wanted)
    assert all(array.is_unchanged() for array in pool)


# --- Rust functions


def outcome(function, *args, **kwargs):
    """What a function returns, or the error that it raises."""
    try:
        return function(*args, **kwargs), None
    except ERRORS as error:
        return None, error


def agreed(function, model, call):
    """What a Rust function and its model return; None if both refuse the arguments."""
    pool, positional, keywords = call
    found, error = outcome(function, *given_of(positional), **given_of(keywords))
    expected, refused = outcome(model, *positional, **keywords)
    assert (error is None) == (refused is None), error
    assert all(array.is_unchanged() for array in pool)
    return (found, expected) if error is None else None


def number(value):
    """What a parameter that is a number gets."""
    if isinstance(value, (str, bytes)):
        raise TypeError("text")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return np.float32(float(given_of(value)))


def masked(image, mask=None, fill=None):
    """What the Rust function does; a `TypeError` if it has to refuse the arguments."""
    if not (isinstance(image, Array) and image.is_one(("float32",), 1)):
        raise TypeError("image")
    if mask is not None and not (isinstance(mask, Array) and mask.is_one(("bool",), 1)):
        raise TypeError("mask")
    fill = np.float32(0) if fill is None else number(fill)
    if mask is None:
        return image.values
    n = min(len(image.values), len(mask.values))
    return np.where(mask.values[:n], image.values[:n], fill)


MASKED = ("float32", "float32", "bool", "bool", "uint8")


@searched
@given(calls(arrays(MASKED, axes=1), ["image", "mask", "fill", "other"]))
def test_a_rust_function_takes_exactly_what_it_declares(ext, call):
    if both := agreed(ext.masked, masked, call):
        found, expected = both
        assert found.dtype == np.float32 and np.array_equal(found, expected, equal_nan=True)


def vectors(dtype):
    return arrays((dtype,), axes=1).filter(lambda array: array.values.ndim == 1)


@searched
@given(
    st.lists(vectors("float32"), min_size=1, max_size=2),
    st.lists(vectors("bool"), max_size=2),
    st.data(),
)
def test_arguments_that_fit_a_rust_function_are_never_refused(ext, images, masks, data):
    call = {"image": data.draw(st.sampled_from(images))}
    if data.draw(st.booleans()):
        call["mask"] = data.draw(st.sampled_from([None, *masks]))
    if data.draw(st.booleans()):
        call["fill"] = data.draw(st.sampled_from([None, 2, -0.5, True]))
    by_position = data.draw(st.integers(0, len(call)))
    names = [name for name in ("image", "mask", "fill") if name in call]
    # What follows a parameter that is left out needs its name.
    by_position = min(by_position, 1 if "mask" not in call else 3)
    args = [call[name] for name in names[:by_position]]
    rest = {name: call[name] for name in names[by_position:]}
    found = ext.masked(*given_of(args), **given_of(rest))
    assert np.array_equal(found, masked(**call), equal_nan=True)
    assert all(array.is_unchanged() for array in (*images, *masks))


def lengths_of(arrays):
    if type(arrays) not in (list, tuple):
        raise TypeError("arrays")
    found = [array for array in arrays if array is not None]
    first = found[0] if found else None
    for array in found:
        fits = isinstance(array, Array) and array.is_one(("uint8", "float32"), 1)
        if not fits or array.values.dtype.itemsize != first.values.dtype.itemsize:
            raise TypeError("arrays")
    if first is None:
        raise TypeError("an array is needed")
    return sum(len(array.values) for array in found), first.values.dtype.itemsize


def halves_of(images):
    if type(images) is not dict:
        raise TypeError("images")
    if not all(isinstance(x, Array) and x.is_one(("float32",), 1) for x in images.values()):
        raise TypeError("images")
    return {name: x.values / np.float32(2) for name, x in images.items()}


@searched
@given(calls(arrays(("float32", "uint8"), axes=1), ["arrays"]))
def test_a_rust_function_takes_exactly_the_lists_that_it_declares(ext, call):
    if both := agreed(ext.lengths_of, lengths_of, call):
        found, expected = both
        assert found == expected


@searched
@given(calls(arrays(("float32",), axes=1), ["images"]))
def test_a_rust_function_takes_exactly_the_dicts_that_it_declares(ext, call):
    if both := agreed(ext.halves_of, halves_of, call):
        found, expected = both
        assert found.keys() == expected.keys()
        for name, half in found.items():
            half = ab.convert(half, "numpy")
            assert np.array_equal(half, expected[name], equal_nan=True)


@searched
@given(arrays())
def test_a_rust_function_is_called_for_any_dtype_that_it_has(ext, array):
    found, error = outcome(ext.element_type, array.array)
    dtype = array.values.dtype.name
    assert found == (None if dtype in bridges.FLOAT8 else dtype), error
    assert array.is_unchanged()


@searched
@given(st.lists(arrays(("float32", "float32", "int32"), axes=2), min_size=1, max_size=3), st.data())
def test_a_rust_function_writes_to_what_it_declares_and_to_nothing_else(ext, pool, data):
    image, out = (data.draw(st.sampled_from(pool)) for _ in range(2))
    floats = all(x.values.dtype == np.float32 for x in (image, out))
    # An array without elements shares none.
    apart = image is not out or out.values.size == 0
    _, error = outcome(ext.touch, image.array, out.array)
    if error is None:
        assert floats and apart and out.name in ("numpy", "torch", "Tensor")
        with np.errstate(all="ignore"):
            written = out._replace(values=(out.values + np.float32(1)).astype(out.values.dtype))
        assert written.is_unchanged()
        out = written
    elif floats and apart and out.name == "torch":
        raise error
    assert all(array.is_unchanged() for array in pool if array.array is not out.array)
    assert out.is_unchanged()


SCALARS = {
    "uint16": (np.uint16(11), int), "int64": (np.int64(3), int),
    "float32": (np.float32(0.5), float), "float64": (np.float64(0.1), float),
    "bool": (np.bool_(True), bool), "complex64": (np.complex64(2j), complex),
    "bfloat16": (ml_dtypes.bfloat16(0.5), float),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_a_scalar_of_numpy_is_a_number_for_every_other_framework(framework, name):
    scalar, kind = SCALARS[name]
    seen = []

    def function(x, a, b, *rest, **named):
        seen.extend([a, b[0], b[1]["c"], *rest, *named.values()])
        return x

    declared = getattr(ab, framework)(function)
    image = bridges.make(framework, np.ones((2, 3), "float32"))
    given = [scalar, {"c": scalar}]
    declared(image, scalar, given, scalar, more=scalar)
    assert {type(each) for each in seen} == {type(scalar) if framework == "numpy" else kind}
    assert len(seen) == 5 and all(each == scalar for each in seen)
    assert given == [scalar, {"c": scalar}] and type(given[0]) is type(scalar)
    # Without an array, where nothing else has to be converted, and beside an array that has to be.
    seen.clear()
    declared(scalar, scalar, given)
    declared(np.ones((2, 3), "float32"), b=given, a=scalar)
    assert {type(each) for each in seen} == {type(scalar) if framework == "numpy" else kind}


def test_text_and_dates_of_numpy_are_no_numbers(torch):
    for value in (np.str_("a"), np.datetime64("2020-01-01"), np.void(b"ab")):
        assert ab.torch(lambda x, value: value)(torch.ones(2), value) is value


def test_an_object_that_is_like_an_array_is_read_once_however_often_it_is_passed():
    class Seen:
        read = 0

        def __array__(self, dtype=None, copy=None):
            Seen.read += 1
            return np.ones(2, dtype)

    same, others = Seen(), [Seen() for _ in range(50)]
    arrays = ab.numpy(lambda arrays: arrays)([same, *others, same])
    assert arrays[0] is arrays[-1] and Seen.read == 51


@pytest.mark.parametrize("numbers", [[1, 2.5, None, "a", True], (1, [2, [3]])])
def test_numbers_beside_arrays_stay_the_same_objects(numbers):
    bridges.need("torch")
    seen = []
    ab.torch(lambda *given: seen.extend(given))(numbers, [numbers, np.ones(2), 1, numbers])
    assert seen[0] is numbers and seen[1][0] is numbers and seen[1][3] is numbers
    assert type(seen[1][1]).__module__ == "torch"
