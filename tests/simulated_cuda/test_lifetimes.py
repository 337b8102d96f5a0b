"""Memory on devices lives as long as somebody uses it, and no longer."""

import gc
import os
import threading
import weakref

import arraybridge as ab
import arrays
import bridges
import cupy
import numpy as np
import pytest
import torch

VALUES = np.arange(4096, dtype="float32")
only_simulated = pytest.mark.skipif(
    not os.environ.get("SIMULATED_CUDA"), reason="calls are counted by the simulation"
)
if os.environ.get("SIMULATED_CUDA"):
    import loader


def in_use():
    """The bytes that arrays have in the pools of PyTorch and CuPy."""
    gc.collect()
    arrays.finish()
    bytes_ = []
    for index in range(len(arrays.GPUS)):
        bytes_.append(torch.cuda.memory_allocated(index))
        with cupy.cuda.Device(index):
            bytes_.append(cupy.get_default_memory_pool().used_bytes())
    return bytes_


@pytest.mark.parametrize("target", ["numpy", "torch", "cupy", "jax"])
@pytest.mark.parametrize("source", arrays.PLACES)
def test_a_conversion_leaves_no_memory_behind(source, target):
    options = [{}, {"copy": True}, {"dtype": "int32"}]
    if target != "numpy":
        options += [{"device": f"cuda:{index}"} for index in range(len(arrays.GPUS))]

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


def test_what_a_call_borrowed_goes_back_once_its_work_is_done():
    lent = []

    def reads(x):
        lent.append(weakref.ref(x))
        x * 2

    x = arrays.make("jax:0", VALUES)
    with arrays.side_stream("torch"):
        ab.torch(reads)(x)
        gc.collect()
        assert lent[0]() is not None
        arrays.finish()
        ab.torch(lambda x: x)(torch.ones(1, device="cuda"))
        gc.collect()
    assert lent[0]() is None


@only_simulated
def test_the_host_waits_when_too_much_memory_is_kept_that_cannot_be_ordered():
    x = arrays.make("jax:0", VALUES)
    twice = ab.torch(lambda x: x * 2)
    twice(x)
    arrays.finish()
    loader.calls()
    release, ended, waited = threading.Event(), threading.Event(), []

    def release_when_the_host_waits():
        while not release.is_set():
            waited.append(loader.calls().get("cuEventSynchronize", 0))
            if waited[-1] or ended.wait(0.001):
                release.set()

    thread = threading.Thread(target=release_when_the_host_waits)
    with arrays.side_stream("torch"):
        held = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        held.launch_host_func(lambda _: release.wait(30), None)
        thread.start()
        results = [twice(x) for _ in range(258)]
        ended.set()
        thread.join()
        np.testing.assert_array_equal(arrays.host(results[-1]), VALUES * 2)
    assert sum(waited)


@only_simulated
def test_the_end_of_a_process_waits_for_memory_that_cannot_be_ordered():
    code = """
    import atexit, numpy as np
    import arraybridge as ab, arrays, loader
    x = arrays.make("jax:0", np.arange(4096, dtype="float32"))
    # What is registered last runs first, so the call's own function runs between these.
    atexit.register(lambda: print(loader.calls().get("cuEventSynchronize", 0)))
    y = ab.torch(lambda x: x * 2)(x)
    atexit.register(loader.calls)
    """
    assert int(bridges.survives(code)) > 0
