"""Memory that Rust functions (of tests/extension) borrow and make on a device."""

import gc
import os

import arraybridge as ab
import arrays
import bridges
import cupy
import numpy as np
import pytest

VALUES = np.arange(4096, dtype="float32")
only_simulated = pytest.mark.skipif(
    not os.environ.get("SIMULATED_CUDA"), reason="memory is counted by the simulation"
)
if os.environ.get("SIMULATED_CUDA"):
    import loader
devices = pytest.mark.parametrize("index", [0, 1])


@pytest.fixture(scope="module")
def ext():
    return bridges.tests_extension()


@devices
def test_memory_that_a_function_borrowed_is_not_used_again_while_it_is_read(ext, index):
    place = f"torch:{index}"
    arrays.empty_pools()
    x = arrays.just_written(place, VALUES)
    at = arrays.address(x)
    with arrays.side_stream("cupy", index):
        # A result for PyTorch would be in order with PyTorch's stream anyway.
        result = ext.device_tensor(x)
        del x
        gc.collect()
        # The pool hands out the memory, in the order of its own stream.
        other = arrays.just_written(place, VALUES * 0)
        assert arrays.address(other) == at
        got = ab.convert(result, "cupy")
        np.testing.assert_array_equal(arrays.host(got), VALUES + 1)


@devices
def test_memory_that_a_function_borrowed_may_be_overwritten_right_after(ext, index):
    x = arrays.just_written(f"torch:{index}", VALUES)
    with arrays.side_stream("cupy", index):
        result = ext.device_tensor(x)
        arrays.overwrite(x)
        got = ab.convert(result, "cupy")
        np.testing.assert_array_equal(arrays.host(got), VALUES + 1)


@devices
def test_memory_of_jax_is_kept_while_a_function_reads_it(ext, index):
    place = f"jax:{index}"
    with arrays.side_stream("cupy", index):
        results = []
        for number in range(4):
            # JAX uses memory again as soon as its last owner is gone.
            results.append(ext.device_tensor(arrays.make(place, VALUES + number)))
        for number, result in enumerate(results):
            got = ab.convert(result, "cupy")
            np.testing.assert_array_equal(arrays.host(got), VALUES + number)


@devices
def test_the_memory_of_a_result_is_freed_on_its_own_stream(ext, index):
    with arrays.side_stream("cupy", index):
        y = ext.device_copy(arrays.just_written(f"cupy:{index}", VALUES))
        z = y * 2
        del y
        gc.collect()
        np.testing.assert_array_equal(arrays.host(z), (VALUES + 1) * 2)


@only_simulated
@devices
def test_the_memory_of_a_result_keeps_its_stream_alive(ext, index):
    x = arrays.make(f"cupy:{index}", VALUES)
    arrays.finish()
    before = loader.machine.simulated_used(index)
    with cupy.cuda.Device(index):
        with cupy.cuda.Stream(non_blocking=True):
            y = ext.device_copy(x)
        gc.collect()
        assert loader.machine.simulated_used(index) > before
        del y
        gc.collect()
    assert loader.machine.simulated_used(index) == before
