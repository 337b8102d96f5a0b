"""The simulation itself: what its rules forbid is found, and what they allow is not."""

import ctypes
import os
import subprocess
import sys
import threading

import arrays
import cupy
import numpy as np
import pytest
import torch

if not os.environ.get("SIMULATED_CUDA"):
    pytest.skip("this is about the simulation", allow_module_level=True)

import loader

VALUES = np.arange(8, dtype="float32")


def on_side_stream():
    return torch.cuda.stream(torch.cuda.Stream())


@pytest.mark.violates
def test_work_in_no_order_is_a_violation_that_names_both():
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with on_side_stream():
        x.fill_(1)
    x.add_(1)
    (found, *_) = loader.violations()
    assert "add_" in found and "fill_" in found and "in no order" in found


def test_work_in_the_order_of_an_event_is_none():
    x = torch.zeros(4, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.fill_(1)
    torch.cuda.current_stream().wait_stream(side)
    x.add_(1)
    assert loader.violations() == []
    np.testing.assert_array_equal(arrays.host(x), 2)


@pytest.mark.violates
def test_the_memory_of_a_pool_used_on_another_stream_is_a_violation():
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with on_side_stream():
        y = x + 1
    del x
    z = torch.full((4,), 9.0, device="cuda")
    assert loader.violations()
    del y, z


def test_work_is_done_late():
    x = torch.ones(4, device="cuda") + 1
    assert loader.machine.simulated_pending() > 0
    torch.cuda.synchronize()
    assert loader.machine.simulated_pending() == 0
    del x


def test_pinned_memory_is_read_when_the_work_is_done_and_pageable_memory_before():
    pageable, pinned = torch.zeros(4), torch.zeros(4).pin_memory()
    x = pageable.to("cuda", non_blocking=True)
    y = pinned.to("cuda", non_blocking=True)
    pageable.fill_(7)
    pinned.fill_(7)
    np.testing.assert_array_equal(arrays.host(x), 0)
    np.testing.assert_array_equal(arrays.host(y), 7)


@pytest.mark.violates
def test_work_on_memory_that_is_freed_is_a_violation():
    address = cupy.cuda.runtime.malloc(64)
    cupy.cuda.runtime.free(address)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.runtime.memset(address, 0, 64)
    cupy.cuda.runtime.free(0)
    address = cupy.cuda.runtime.malloc(64)
    loader.violations()
    cupy.cuda.runtime.memset(address, 0, 65)
    (found,) = loader.violations()
    assert "65 bytes" in found and "not allocated" in found
    cupy.cuda.runtime.free(address)


def test_memory_in_stream_order_may_be_used_again_in_that_order():
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(3):
        address = cupy.cuda.runtime.mallocAsync(4096, stream.ptr)
        cupy.cuda.runtime.memsetAsync(address, 1, 4096, stream.ptr)
        cupy.cuda.runtime.freeAsync(address, stream.ptr)
    assert loader.violations() == []


@pytest.mark.violates
def test_memory_in_stream_order_used_on_another_stream_is_a_violation():
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    address = cupy.cuda.runtime.mallocAsync(4096, one.ptr)
    cupy.cuda.runtime.memsetAsync(address, 1, 4096, other.ptr)
    (found,) = loader.violations()
    assert "a memset" in found and "an allocation" in found
    cupy.cuda.runtime.freeAsync(address, other.ptr)


def driver(name, *arguments):
    """Call a function of the driver that CuPy and PyTorch do not offer."""
    return getattr(loader.machine, name)(*arguments)


def number(value=0):
    return ctypes.c_ulonglong(value)


def piece(device):
    """Memory of cuMemCreate on a device: the first fields of CUmemAllocationProp."""
    handle, wanted = number(), (ctypes.c_int * 16)(1, 0, 1, device)
    assert driver("cuMemCreate", ctypes.byref(handle), number(PIECE), wanted, number()) == 0
    return handle


PIECE = 2 << 20


@pytest.mark.violates
def test_mapped_memory_is_allocated_where_and_while_it_is_mapped():
    used = loader.machine.simulated_used(1)
    start, room = number(), number(3 * PIECE)
    nothing = number()
    assert driver("cuMemAddressReserve", ctypes.byref(start), room, nothing, nothing, nothing) == 0
    for part in range(2):
        handle, there = piece(1), number(start.value + part * PIECE)
        assert driver("cuMemMap", there, number(PIECE), nothing, handle, nothing) == 0
        assert driver("cuMemRelease", handle) == 0
    assert loader.machine.simulated_used(1) == used + 2 * PIECE
    loader.violations()
    with cupy.cuda.Device(1):
        cupy.cuda.runtime.memset(start.value + 64, 1, 2 * PIECE - 64)
        assert loader.violations() == []
        cupy.cuda.runtime.memset(start.value + 64, 1, 2 * PIECE)
        (found,) = loader.violations()
        assert "not allocated" in found
        cupy.cuda.runtime.deviceSynchronize()
    assert driver("cuMemAddressFree", start, room) != 0
    assert "while memory is mapped there" in loader.violations()[0]
    assert driver("cuMemUnmap", start, number(2 * PIECE)) == 0
    assert loader.machine.simulated_used(1) == used
    assert driver("cuMemUnmap", start, number(PIECE)) != 0
    assert "not mapped" in loader.violations()[0]
    assert driver("cuMemAddressFree", start, room) == 0


@pytest.mark.violates
def test_a_free_orders_nothing():
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with on_side_stream():
        x.fill_(1)
    cupy.cuda.runtime.free(cupy.cuda.runtime.malloc(64))
    x.add_(1)
    assert loader.violations()


def test_of_work_in_no_order_the_last_call_comes_first():
    order = []
    for number in range(3):
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.launch_host_func(order.append, number)
    loader.finish()
    assert order == [2, 1, 0]


def test_a_host_function_holds_up_its_own_stream_alone():
    started, release = threading.Event(), threading.Event()

    def hold(_):
        started.set()
        release.wait(30)

    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    one.launch_host_func(hold, None)
    after = one.record()
    assert started.wait(30)
    other.launch_host_func(lambda _: None, None)
    other.synchronize()
    assert not after.done
    release.set()
    one.synchronize()
    assert after.done


KERNEL = r"""
extern "C" __global__ void reversed(const float *x, float *y, int n)
{
    __shared__ float block[64];
    int i = threadIdx.x;
    block[i] = x[i];
    __syncthreads();
    y[i] = block[n - 1 - i];
}
"""


def test_a_kernel_whose_threads_meet_computes_what_it_says():
    kernel = cupy.RawKernel(KERNEL, "reversed")
    x = cupy.asarray(VALUES)
    y = cupy.empty_like(x)
    kernel((1,), (8,), (x, y, np.int32(8)))
    np.testing.assert_array_equal(arrays.host(y), VALUES[::-1])


@pytest.mark.violates
def test_a_kernel_with_bare_pointers_in_no_order_is_a_violation():
    kernel = cupy.RawKernel(KERNEL, "reversed")
    x = cupy.asarray(VALUES)
    y = cupy.empty_like(x)
    loader.finish()
    with cupy.cuda.Stream(non_blocking=True):
        kernel((1,), (8,), (x, y, np.int32(8)))
    y[4:] = 0
    (found, *_) = loader.violations()
    assert "reversed" in found


def test_what_is_missing_is_refused_by_name():
    loader.refusals()
    with pytest.raises(Exception, match="not supported|801"):
        cupy.cuda.runtime.ipcGetMemHandle(cupy.empty(4).data.ptr)
    assert "cudaIpcGetMemHandle" in loader.refusals()
    cupy.cuda.runtime.getDevice()


def test_memory_ends():
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.empty(8 << 30, "uint8")


def test_the_host_cannot_touch_device_memory():
    code = "import ctypes, cupy; ctypes.string_at(cupy.zeros(4).data.ptr, 4)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -11, done.stderr.decode()


@pytest.mark.parametrize("place", arrays.PLACES)
def test_values_arrive_and_come_back(place):
    x = arrays.make(place, VALUES)
    assert arrays.place(x) == place
    np.testing.assert_array_equal(arrays.host(x), VALUES)
