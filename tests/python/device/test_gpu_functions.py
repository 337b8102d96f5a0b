"""Declared Rust functions on a real device. Skipped, with the reason, without one.

The functions are those of tests/extension. These tests were written without a device, and have
not been run on one.
"""

import contextlib
import gc
import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest
from gpus import BUSY, address, host, make, need, why_absent

IMAGE = np.random.default_rng(0).random((64, 48), dtype="float32")
SHARING = ("cupy", "torch", "jax")

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def ext():
    need("cupy")
    return bridges.tests_extension()


@pytest.mark.parametrize("framework", SHARING)
def test_a_tensor_on_a_device_is_taken_by_every_framework(ext, framework):
    need(framework)
    import cupy

    tensor = ab.Tensor(ext.device_copy(make("cupy", IMAGE)))
    assert tensor.device == "cuda:0"
    array = ab.convert(tensor, framework)
    assert address(framework, array) == tensor.__cuda_array_interface__["data"][0]
    del tensor
    gc.collect()
    cupy.full(IMAGE.shape, -1, "float32")
    assert (host(framework, array) == IMAGE).all()


@pytest.mark.parametrize("framework", SHARING)
def test_a_view_is_of_the_arrays_own_memory(ext, framework):
    need(framework)
    array = make(framework, IMAGE)
    shape, strides, pointer, device, described, _ = ext.device_facts(array)
    assert (tuple(shape), strides, device) == (IMAGE.shape, [48, 1], 0)
    assert (pointer, described) == (address(framework, array), "accelerator:0")


@pytest.mark.parametrize("framework", ("numpy", *SHARING))
def test_a_function_takes_and_gives_arrays_of_every_framework(ext, framework):
    need(framework)
    array = make(framework, IMAGE)
    result = ext.device_copy(array)
    assert ab.detect_memory_type(result) == framework
    assert (host(framework, result) == IMAGE).all() and (host(framework, array) == IMAGE).all()
    assert ext.device_copy(make(framework, IMAGE[:0])).shape == (0, 48)


@pytest.mark.parametrize("name", ["device_copy_torch", "device_copy_jax"])
@pytest.mark.parametrize("framework", SHARING)
def test_a_function_may_be_declared_for_other_frameworks(ext, name, framework):
    need(framework, name.rsplit("_", 1)[-1])
    result = getattr(ext, name)(make(framework, IMAGE))
    assert ab.detect_memory_type(result) == framework
    assert (host(framework, result) == IMAGE).all()


@pytest.mark.parametrize("framework", SHARING)
def test_values_that_are_still_computed_arrive_finished(ext, framework):
    need(framework)
    for _ in range(10):
        x = make(framework, np.zeros(BUSY, "float32"))
        for _ in range(30):
            x = x + 1
        y = ext.device_copy(x)
        del x
        rubbish = make(framework, np.full(BUSY, -1, "float32")) * 2
        assert (host(framework, y + 0) == 30).all()
        del rubbish


@pytest.mark.parametrize("framework", ["cupy", "torch"])
def test_an_out_parameter_is_written_in_place(ext, framework):
    need(framework)
    out = make(framework, np.zeros_like(IMAGE))
    before = address(framework, out)
    ext.device_copy_into(make("cupy", IMAGE), out)
    assert address(framework, out) == before and (host(framework, out) == IMAGE).all()
    with pytest.raises(ab.AliasedArgumentError):
        ext.device_copy_into(out, out)
    with pytest.raises(ab.CopyRequiredError, match="host"):
        ext.device_copy_into(out, np.zeros_like(IMAGE))


def test_an_immutable_out_parameter_is_refused(ext):
    need("jax")
    with pytest.raises(ab.CopyRequiredError, match="never change"):
        ext.device_copy_into(IMAGE, make("jax", IMAGE))


def test_a_function_runs_on_the_current_stream_of_its_framework(ext):
    import cupy

    def handle():
        return ext.device_facts(make("cupy", IMAGE))[-1]

    assert handle() == 1
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert handle() == stream.ptr
    with ab.thread_stream() as own:
        assert handle() == own.__cuda_stream__()[1] > 2


def test_the_callers_stream_is_current_again(torch, ext):
    need("torch")
    import cupy

    def handles():
        return torch.cuda.current_stream().cuda_stream, cupy.cuda.get_current_stream().ptr

    before = handles()
    ext.device_copy(make("torch", IMAGE))
    with pytest.raises(TypeError):
        ext.device_copy(make("torch", IMAGE.astype("float64")))
    assert handles() == before


@contextlib.contextmanager
def own_stream():
    """A stream that all frameworks are on: a call is ordered with the current one of each."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(stream)
        if why_absent("torch") is None:
            import torch

            scopes.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield stream


def test_two_threads_overlap_on_the_device(ext):
    """One thread's stream is held back; the other's work is done meanwhile."""
    import cupy

    image = make("cupy", IMAGE)
    ext.device_copy(image)
    cupy.cuda.Device().synchronize()
    held, free = cupy.cuda.Event(), cupy.cuda.Event()
    release = threading.Event()
    results = {}

    def slow():
        with own_stream() as stream:
            # The stream goes on when the host function has returned.
            stream.launch_host_func(lambda _: release.wait(30), None)
            results["slow"] = ext.device_copy(image)
            held.record(stream)

    def quick():
        with own_stream() as stream:
            results["quick"] = ext.device_copy(image)
            free.record(stream)
        free.synchronize()

    threads = [threading.Thread(target=slow), threading.Thread(target=quick)]
    try:
        for thread in threads:
            thread.start()
            thread.join()
        assert free.done and not held.done
    finally:
        release.set()
    held.synchronize()
    assert all((result.get() == IMAGE).all() for result in results.values())


def test_memory_that_cannot_be_had_is_an_error_that_the_ladder_knows(ext):
    image = make("cupy", IMAGE)
    with pytest.raises(ab.DeviceMemoryError, match="bytes") as caught:
        ext.device_bytes(1 << 44)
    assert caught.value.memory_type == "cupy"
    assert (ext.device_copy(image).get() == IMAGE).all()


def test_a_call_without_a_stream_has_the_device_of_its_array(ext):
    need("torch")
    assert ext.device_of(make("torch", IMAGE)) == "accelerator:0"
