"""Stacks with any number of leading axes, and slices with any axes."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

STACK = np.arange(2 * 3 * 4 * 5 * 6, dtype="uint16").reshape(2, 3, 4, 5, 6)
WITH_AXES = [name for name in bridges.CPU_FRAMEWORKS if name != "pyclesperanto"]


@pytest.mark.parametrize("framework", WITH_AXES)
def test_slices_are_taken_along_every_leading_axis(framework):
    data = STACK.astype("float32")
    seen = []

    def plus_one(image):
        seen.append(tuple(image.shape))
        return image + 1

    declared = getattr(ab, framework)(plus_one, slice_by_slice=True)
    result = declared(bridges.make(framework, data))
    assert bridges.difference(framework, result, data + 1) is None
    assert seen == [(5, 6)] * 24
    same = ab.process_slices(bridges.make(framework, data), lambda image: image + 1)
    assert bridges.difference(framework, same, data + 1) is None


def test_the_dtype_of_a_stack_with_several_axes_is_that_of_its_lead():
    half = ab.numpy(lambda image: image / 2, slice_by_slice=True)
    with pytest.warns(ab.FractionsLostWarning, match="720 values"):
        result = half(STACK * 2 + 1)
    assert result.dtype == np.uint16 and np.array_equal(result, np.rint((STACK * 2 + 1) / 2))
    # A sum for each slice is no image, and stays as it is.
    sums = ab.jax(lambda image: image.sum() / 7, slice_by_slice=True)(STACK)
    assert sums.shape == STACK.shape[:3] and sums.dtype == np.float32


def test_values_become_lists_that_are_nested_like_the_leading_axes():
    declared = ab.numpy(lambda image: (image, int(image.sum()), image), slice_by_slice=True)
    first, sums, third = declared(STACK)
    assert np.array_equal(first, STACK) and np.array_equal(third, STACK)
    assert isinstance(sums, list) and np.array_equal(sums, STACK.sum(axis=(-1, -2)))


def test_results_of_another_shape_are_stacked_along_the_leading_axes():
    lows = ab.torch(lambda image: image.float().mean(dim=0))
    result = lows(STACK, slice_by_slice=True)
    np.testing.assert_allclose(result, STACK.mean(axis=-2))


@given(data=st.data(), axes=st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_any_axes_can_be_those_of_a_slice(data, axes):
    shape = data.draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes))
    inner = data.draw(st.lists(st.integers(0, axes - 1), min_size=1, max_size=axes, unique=True))
    named = [axis - axes if data.draw(st.booleans()) else axis for axis in inner]
    array = np.random.default_rng(axes).integers(0, 99, shape)
    seen = []

    def reverse(part):
        seen.append(part.shape)
        return part[::-1].copy()

    result = ab.numpy(reverse, slice_by_slice=True, slice_axes=tuple(named))(array)
    assert np.array_equal(result, np.flip(array, min(inner)))
    assert set(seen) == {tuple(shape[axis] for axis in sorted(inner))}


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_channels_stay_where_they_are(framework):
    image = np.random.default_rng(0).integers(0, 99, (7, 8, 3)).astype("float32")
    declared = getattr(ab, framework)(lambda part: part + 1, slice_axes=(0, 1))
    result = declared(bridges.make(framework, image), slice_by_slice=True)
    assert bridges.difference(framework, result, image + 1) is None


def test_what_a_function_writes_to_a_slice_in_the_middle_reaches_the_array():
    image = np.zeros((4, 3, 5))

    def fill(part):
        part[...] = 7

    assert ab.numpy(fill, slice_by_slice=True, slice_axes=(0, 2))(image) is None
    assert (image == 7).all()


def test_names_of_axes_are_those_of_the_callers_array():
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(STACK[0], dims=("c", "z", "y", "x"))
    seen = []
    declared = ab.numpy(
        lambda part: seen.append(part.shape) or part * 2, slice_by_slice=True, slice_axes=("z", "x")
    )
    assert np.array_equal(declared(array), STACK[0] * 2) and set(seen) == {(4, 6)}
    with pytest.raises(ValueError, match=r"argument 'part': slice_axes has \"z\".*no names"):
        declared(STACK[0])
    with pytest.raises(ValueError, match="have y, x"):
        declared(xarray.DataArray(STACK[0, 0, 0], dims=("y", "x")))


def test_an_array_with_the_axes_of_a_slice_is_one_slice():
    seen = []
    declared = ab.numpy(lambda part: seen.append(part.shape) or part, slice_axes=(-3, -2, -1))
    assert declared(STACK[0, 0], slice_by_slice=True).shape == (4, 5, 6)
    assert declared(STACK[0], slice_by_slice=True).shape == (3, 4, 5, 6)
    assert seen == [(4, 5, 6)] * 4


@pytest.mark.filterwarnings("ignore::arraybridge.NarrowedDtypeWarning")
@pytest.mark.parametrize("values", (list, np.asarray))
@pytest.mark.parametrize("framework", ("numpy", "torch", "jax"))
def test_sliced_takes_one_value_for_each_slice(framework, values):
    stack = STACK[0, 0].astype("float32")
    declared = getattr(ab, framework)(lambda image, gain: image * gain, sliced="gain")
    gains = [0.5, 2.0, 3.0, 4.0]
    result = declared(stack, values(gains), slice_by_slice=True)
    np.testing.assert_array_equal(result, stack * np.float32(gains)[:, None, None])
    assert np.array_equal(declared(stack, 2.0, slice_by_slice=True), stack * 2)


def test_sliced_arrays_follow_the_axes_of_the_lead():
    image = np.random.default_rng(0).integers(0, 9, (4, 5, 3))
    declared = ab.numpy(
        lambda part, mask, gain: part * mask * gain,
        slice_by_slice=True, slice_axes=(0, 1), sliced=("mask", "gain"),
    )  # fmt: skip
    mask, gain = image > 4, np.array([1, 2, 3])
    assert np.array_equal(declared(image, mask, gain), image * mask * gain)
    with pytest.raises(ValueError, match=r"argument 'gain'.*\[3\] and \[2\]"):
        declared(image, mask, gain[:2])
    with pytest.raises(ValueError, match=r"argument 'mask'.*\[3\] and \[4\]"):
        declared(image, mask[:, 0], gain)


@pytest.mark.parametrize(
    ("axes", "text"), [((0, 3), "has 3, and the array of the shape"), ((-1, 1), "the axis 1 twice")]
)
def test_axes_that_an_array_has_not_are_an_error(axes, text):
    declared = ab.numpy(lambda image: image, slice_by_slice=True, slice_axes=axes)
    with pytest.raises(ValueError, match=rf"<lambda>\(\): argument 'image': .*{text}"):
        declared(np.zeros((2, 3)))


def test_a_slice_that_fails_is_named_by_its_place():
    def fail(part):
        if part[0, 0] == 2:
            raise KeyError("no")
        return part

    image = np.arange(24).reshape(2, 4, 3)
    with pytest.raises(KeyError) as caught:
        ab.numpy(fail, slice_by_slice=True, slice_axes=(0, 1))(image)
    note = "argument 'part': in the slice [:, :, 2]"
    assert [each for each in caught.value.__notes__ if note in each]


def test_a_contract_sees_the_stack_as_it_is_returned():
    shapes = []
    declared = ab.numpy(
        lambda part: part, slice_by_slice=True, slice_axes=(0, 1),
        contract=lambda result: shapes.append(result.shape),
    )  # fmt: skip
    declared(np.zeros((4, 5, 2)))
    assert shapes == [(4, 5, 2)]


@pytest.mark.parametrize("axes", ((0, 1), (0, 2), (1, 2), (0,), (1,), (2,)))
@pytest.mark.parametrize("framework", ("pyclesperanto", "numpy", "torch"))
def test_slices_are_written_to_an_array_of_a_framework_along_any_axes(framework, axes):
    stack = np.arange(24, dtype="float32").reshape(2, 3, 4)
    out = bridges.make(framework, np.zeros_like(stack))
    doubled = ab.numpy(lambda part: part * 2, slice_by_slice=True, slice_axes=axes)
    assert doubled(stack, out=out) is out
    assert bridges.difference(framework, out, stack * 2) is None
