"""Memory on devices lives as long as somebody uses it, and no longer."""

import gc

import arraybridge as ab
import arrays
import cupy
import numpy as np
import pytest
import torch

VALUES = np.arange(4096, dtype="float32")


def in_use():
    """The bytes that arrays have in the pools of PyTorch and CuPy."""
    gc.collect()
    arrays.finish()
    bytes_ = []
    for index in (0, 1):
        bytes_.append(torch.cuda.memory_allocated(index))
        with cupy.cuda.Device(index):
            bytes_.append(cupy.get_default_memory_pool().used_bytes())
    return bytes_


@pytest.mark.parametrize("target", ["numpy", "torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.PLACES)
def test_a_conversion_leaves_no_memory_behind(source, target):
    options = [{}, {"copy": True}, {"dtype": "int32"}]
    if target != "numpy":
        options += [{"device": "cuda:0"}, {"device": "cuda:1"}]

    def convert_all():
        for option in options:
            ab.convert(arrays.make(source, VALUES), target, **option)
        # Owners whose work is done are dropped by the next call.
        arrays.finish()
        ab.torch(lambda x: x)(torch.ones(1, device="cuda"))

    convert_all()
    before = in_use()
    for _ in range(3):
        convert_all()
    assert in_use() == before


@pytest.mark.parametrize("target", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.DEVICE_PLACES)
def test_a_shared_result_outlives_its_source(source, target):
    x = arrays.make(source, VALUES)
    y = ab.convert(x, target)
    del x
    gc.collect()
    others = [arrays.make(source, VALUES * 0 - 1) for _ in range(4)]
    np.testing.assert_array_equal(arrays.host(y), VALUES)
    del others


@pytest.mark.parametrize("framework", ["torch", "cupy"])
@pytest.mark.parametrize("source", arrays.DEVICE_PLACES)
def test_what_a_call_borrowed_may_be_dropped_at_once(source, framework):
    twice = getattr(ab, framework)(lambda x: x * 2)
    results = []
    for number in range(4):
        results.append(twice(arrays.make(source, VALUES + number)))
    for number, y in enumerate(results):
        np.testing.assert_array_equal(arrays.host(y), (VALUES + number) * 2)
