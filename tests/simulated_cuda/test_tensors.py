"""Tensors of memory on a device are in order with the streams of their consumers."""

import gc

import arraybridge as ab
import arrays
import cupy
import numpy as np
import pytest

VALUES = np.arange(4096, dtype="float32")
pairs = pytest.mark.parametrize(
    ("source", "target"),
    [("cupy:0", "torch"), ("torch:0", "cupy"), ("cupy:1", "torch"), ("torch:1", "cupy")],
)


@pairs
def test_a_consumer_waits_for_the_stream_that_wrote_a_tensor(source, target):
    tensor = ab.Tensor(arrays.just_written(source, VALUES))
    with arrays.side_stream(target, int(source[-1])):
        y = ab.convert(tensor, target) * 2
        np.testing.assert_array_equal(arrays.host(y), (VALUES + 1) * 2)


@pairs
def test_the_memory_of_a_tensor_is_not_used_again_while_a_consumer_reads_it(source, target):
    arrays.empty_pools()
    x = arrays.make(source, VALUES)
    at, tensor = arrays.address(x), ab.Tensor(x)
    del x
    with arrays.side_stream(target, int(source[-1])):
        view = ab.convert(tensor, target)
        y = view * 2
        del view, tensor
        gc.collect()
        # The pool hands out the memory, in the order of its own stream.
        other = arrays.just_written(source, VALUES)
        assert arrays.address(other) == at
        np.testing.assert_array_equal(arrays.host(y), VALUES * 2)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
@pytest.mark.parametrize("index", [0, 1])
def test_an_array_of_cupy_with_negative_strides_becomes_a_tensor(index, dtype):
    """CuPy exports such strides as numbers without a sign."""
    values = np.arange(24).reshape(4, 6).astype(dtype)
    with cupy.cuda.Device(index):
        for part in ((slice(None, None, -1), slice(None)), (slice(None), slice(None, None, -2))):
            x = arrays.just_written(f"cupy:{index}", values)[part]
            # Both the tensor that CuPy exported and what it is passed on as.
            tensor = ab.Tensor(x)
            for read in (cupy.from_dlpack(tensor), ab.convert(tensor, "cupy")):
                np.testing.assert_array_equal(arrays.host(read), (values + 1)[part])
