"""Floats that are scaled to the integers of a camera with fewer bits than their dtype."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LEVELS = np.arange(4096, dtype="uint16").reshape(64, 64)
RANGE = {"scaling": "unit", "range": (0, 4095)}


@pytest.mark.parametrize("framework", bridges.CPU_FRAMEWORKS)
def test_unit_gives_back_the_levels_of_a_12_bit_image(framework):
    parts = ab.convert(LEVELS.astype("float32") / np.float32(4095), framework)
    declared = getattr(ab, framework)(lambda image: parts, output_type="numpy", **RANGE)
    result = declared(LEVELS)
    assert result.dtype == np.uint16 and np.array_equal(result, LEVELS)


@pytest.mark.parametrize("count", (2, 3))
def test_slices_and_tiles_are_scaled_like_the_whole(count):
    stack = np.stack([LEVELS] * count)
    sliced = ab.numpy(lambda image: image / 4095, slice_by_slice=True, **RANGE)
    assert np.array_equal(sliced(stack), stack)
    tiled = ab.numpy(lambda image: image / 4095, tiles=(20, 30), **RANGE)
    assert np.array_equal(tiled(stack), stack)


@given(
    values=st.lists(st.floats(width=32), min_size=1, max_size=9),
    low=st.integers(-300, 300),
    span=st.integers(1, 300),
)
@settings(max_examples=200, deadline=None)
@pytest.mark.filterwarnings("ignore::arraybridge.ClippedValuesWarning")
def test_unit_is_the_nearest_integer_of_the_range(values, low, span):
    array = np.array(values, "float32")
    found = ab.finish_dtype(
        array, np.zeros(array.shape, "int16"),
        dtype_conversion="int16", scaling="unit", range=(low, low + span),
    )  # fmt: skip
    nothing = min(max(0, low), low + span)
    with np.errstate(all="ignore"):
        scaled = np.clip(array.astype("float64") * span + low, low, low + span)
        expected = np.where(np.isnan(array), nothing, np.rint(scaled))
    assert np.array_equal(found, expected)


def test_stretch_goes_from_the_first_integer_to_the_last():
    stretched = ab.numpy(lambda image: image / 8, scaling="stretch", range=(10, 20))
    assert np.array_equal(stretched(np.arange(11, dtype="uint8")), np.arange(10, 21))
    # A constant has no range to stretch.
    assert np.array_equal(stretched(np.full(3, 120, "uint8")), [15] * 3)


def test_what_is_beyond_the_range_is_counted():
    declared = ab.numpy(lambda image: image / 2, **RANGE)
    with pytest.warns(ab.ClippedValuesWarning, match="2 values.*range from 0 to 4095 of uint16"):
        result = declared(np.array([0, 1, 3, 4], "uint16"))
    assert list(result) == [0, 2048, 4095, 4095]


def test_a_trace_scales_to_the_range(jax):
    declared = ab.jax(lambda image: image / 4, dtype_conversion="uint16", **RANGE)
    assert list(jax.jit(declared)(np.float32([0, 1, 2, 5]))) == [0, 1024, 2048, 4095]


def test_a_block_has_a_range_and_a_scaling_of_ones_own_has_none():
    half = ab.numpy(lambda image: image / 4095)
    full = ab.numpy(lambda image: image / 4095, scaling="unit")
    with ab.dtype_policy(**RANGE):
        assert half(LEVELS).max() == 4095 and full(LEVELS).max() == 65535
        with ab.dtype_policy(narrow="error"):
            assert half(LEVELS).max() == 4095


@pytest.mark.parametrize("wrong", ((5, 5), (9, 0), (0,), 4095, (0.0, 1.5), "no"))
def test_a_range_is_two_integers_in_order(wrong):
    for take in (ab.numpy, ab.dtype_policy):
        with pytest.raises(ValueError, match="two integers, the smaller one first"):
            take(scaling="unit", range=wrong)


def test_a_range_needs_a_scaling_and_a_dtype_that_has_it():
    for options in ({}, {"scaling": "clamp"}):
        with pytest.raises(ValueError, match='"unit" or "stretch"'):
            ab.numpy(range=(0, 4095), **options)
    declared = ab.numpy(lambda image: image / 255, **RANGE)
    with pytest.raises(ValueError, match=r"uint8 has the integers from 0 to 255"):
        declared(np.arange(9, dtype="uint8"))
    # Floats are not scaled.
    assert declared(np.arange(9, dtype="float32")).dtype == np.float32


# The span is a power of two, so that float32 has the ties.
@pytest.mark.parametrize("bounds", [(1, 2), (-3, 5), (5, 261)])
def test_a_trace_stretches_as_the_kernel_does(jax, bounds):
    values = np.linspace(0, 1, 2 * (bounds[1] - bounds[0]) + 1, dtype="float32")
    declared = ab.jax(
        lambda image: image, dtype_conversion="int16", scaling="stretch", range=bounds
    )
    assert np.array_equal(declared(values), jax.jit(declared)(values))


def test_stretching_stays_in_the_range():
    stretch = {"dtype_conversion": "uint8", "scaling": "stretch", "range": (10, 20)}
    declared = ab.numpy(lambda image: image, **stretch)
    with pytest.warns(ab.ClippedValuesWarning):
        assert (declared(np.array([np.inf, -np.inf])) >= 10).all()
    assert declared(np.array([-1.7e308, 0, 1.7e308])).tolist() == [10, 15, 20]
