"""A thread's own stream is in order with the streams that the frameworks were on before."""

import gc
import threading

import arraybridge as ab
import arrays
import cupy
import numpy as np
import pytest
import torch

VALUES = np.arange(4, dtype="float32")
frameworks = pytest.mark.parametrize("framework", ["torch", "cupy"])


@frameworks
def test_a_threads_stream_waits_for_the_streams_that_the_frameworks_are_on(framework):
    x = arrays.just_written(f"{framework}:0", VALUES)
    with ab.thread_stream():
        y = x * 2
    np.testing.assert_array_equal(arrays.host(y), (VALUES + 1) * 2)


@frameworks
def test_the_streams_that_frameworks_return_to_wait_for_the_threads_own(framework):
    x = arrays.make(f"{framework}:0", VALUES)
    with ab.thread_stream():
        y = x * 2
    z = y + 1
    np.testing.assert_array_equal(arrays.host(z), VALUES * 2 + 1)


@frameworks
def test_a_threads_stream_waits_for_the_streams_that_it_was_left_to(framework):
    if framework == "torch" and arrays.FREES_IN_STREAM_ORDER:
        pytest.skip("memory that another stream uses needs record_stream, and is not used again")
    x = arrays.make(f"{framework}:0", VALUES)
    with arrays.side_stream(framework):
        with ab.thread_stream():
            y = x * 2
        z = y + 1
        at = arrays.address(y)
        del y
        gc.collect()
    # It is entered from another stream, and its pool hands out what the side stream still reads.
    with ab.thread_stream():
        # Other tests may have left memory in the pool, too.
        others = [x * 3]
        while arrays.address(others[-1]) != at and len(others) < 1000:
            others.append(x * 3)
        assert arrays.address(others[-1]) == at
    np.testing.assert_array_equal(arrays.host(z), VALUES * 2 + 1)


@pytest.mark.filterwarnings("error")
def test_a_thread_has_one_stream_and_the_next_thread_gets_it():
    def own():
        with ab.thread_stream() as stream:
            handles = arrays.current()[2:]
            with ab.thread_stream():
                assert arrays.current()[2:] == handles
            assert arrays.current()[2:] == handles == (stream.__cuda_stream__()[1],) * 2
        return handles

    mine, others = own(), []
    assert arrays.current()[2:] == (0, 0)
    # A thread gives its stream back when it has ended, a moment after it was joined.
    for _ in range(100):
        thread = threading.Thread(target=lambda: others.append(own()))
        thread.start()
        thread.join()
        if others[0] in others[1:]:
            break
    assert own() == mine
    assert others[0] in others[1:] and mine not in others


@pytest.mark.two_devices
def test_a_threads_stream_is_of_the_device_that_is_asked_for():
    x = {framework: arrays.make(f"{framework}:1", VALUES) for framework in ("torch", "cupy")}
    before = arrays.current()
    with ab.thread_stream(device=1) as own:
        assert torch.cuda.current_device() == cupy.cuda.runtime.getDevice() == 1
        assert arrays.current()[2:] == (own.__cuda_stream__()[1],) * 2
        y = x["torch"] * 2 + ab.convert(x["cupy"], "torch")
    assert arrays.current() == before
    assert arrays.place(y) == "torch:1"
    np.testing.assert_array_equal(arrays.host(y), VALUES * 3)
