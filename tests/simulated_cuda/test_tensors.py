"""Tensors of memory on a device are in order with the streams of their consumers."""

import gc

import arraybridge as ab
import arrays
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
