"""Arrays of every framework on CUDA devices, made and read with the frameworks' functions.

The tests of this folder use nothing of the simulation beside this file, so that they run on real
devices too.
"""

from __future__ import annotations

import contextlib
import os

import cupy
import jax
import numpy as np
import torch
from arraybridge._tools import arrays as own

if os.environ.get("SIMULATED_CUDA"):
    from loader import finish, violations
else:

    def finish():
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)

    def violations():
        return []


GPUS = jax.devices("gpu")
# XLA leaves another device current when it starts.
torch.cuda.set_device(0)
# With this one, to free memory is work on the stream that it was allocated on. What another stream
# still uses has to be named by `record_stream`.
FREES_IN_STREAM_ORDER = torch.cuda.get_allocator_backend() == "cudaMallocAsync"
# "framework:device", with the host's where the framework has host arrays.
PLACES = ("numpy", "torch:0", "torch:1", "cupy:0", "cupy:1", "jax:0", "jax:1", "jax:cpu")
# Those of frameworks whose users choose streams.
STREAM_PLACES = ("torch:0", "torch:1", "cupy:0", "cupy:1")
DEVICE_PLACES = ("torch:0", "torch:1", "cupy:0", "cupy:1", "jax:0", "jax:1")


def split(place: str) -> tuple[str, str]:
    """The framework and the device of a place."""
    framework, _, device = place.partition(":")
    return framework, device or "cpu"


def make(place: str, values: np.ndarray):
    """A new array, ready to be used."""
    framework, device = split(place)
    with current_device_kept():
        x = own.make(framework, values, f"accelerator:{device}" if device.isdigit() else "host")
        return x.block_until_ready() if framework == "jax" else x


def just_written(place: str, values: np.ndarray):
    """An array of the values + 1 whose last work is not done yet."""
    x = make(place, values)
    with x.device if isinstance(x, cupy.ndarray) else contextlib.nullcontext():
        x += 1
    return x


def host(x) -> np.ndarray:
    """The values, after all work that was asked for."""
    finish()
    with current_device_kept():
        return own.read(split(place(x))[0], x)


def place(x) -> str:
    """Where an array is."""
    if isinstance(x, torch.Tensor):
        return f"torch:{x.device.index}" if x.is_cuda else "torch:cpu"
    if isinstance(x, cupy.ndarray):
        return f"cupy:{x.device.id}"
    if isinstance(x, np.ndarray):
        return "numpy"
    (device,) = x.devices()
    return "jax:cpu" if device.platform == "cpu" else f"jax:{device.id}"


def expected_place(source: str, target: str, device: str | None) -> str:
    """Where the result of a conversion belongs: where it is asked for, else where the source is."""
    here = split(source)[1]
    if target == "numpy":
        return "numpy"
    if device == "host":
        return f"{target}:cpu"
    if device is not None:
        return f"{target}:{device[-1]}"
    if here.isdigit():
        return f"{target}:{here}"
    return f"cupy:{cupy.cuda.runtime.getDevice()}" if target == "cupy" else f"{target}:cpu"


def address(x) -> int:
    return own.address(split(place(x))[0], x)


def said(record) -> tuple:
    """What a plan and a record have in common."""
    return record.route, record.how, record.via, record.device


def overwrite(x, value=99) -> None:
    """Write over an array on its framework's current stream, without waiting.

    JAX's arrays stay as they are.
    """
    if isinstance(x, torch.Tensor):
        x.fill_(value)
    elif isinstance(x, cupy.ndarray):
        with x.device:
            x.fill(value)
    elif isinstance(x, np.ndarray):
        x[...] = value


def empty_pools() -> None:
    """Empty the pools of PyTorch and CuPy, so that they hand out what is freed next."""
    finish()
    torch.cuda.empty_cache()
    for index in range(len(GPUS)):
        with cupy.cuda.Device(index):
            cupy.get_default_memory_pool().free_all_blocks()


def current() -> tuple:
    """The current devices and streams of the thread."""
    return (
        torch.cuda.current_device(),
        cupy.cuda.runtime.getDevice(),
        torch.cuda.current_stream().cuda_stream,
        cupy.cuda.get_current_stream().ptr,
    )


@contextlib.contextmanager
def side_stream(framework: str, index: int = 0):
    """A stream of the framework's own that the default streams do not wait for."""
    if framework == "torch":
        stream = torch.cuda.Stream(index)
        with torch.cuda.stream(stream):
            yield
        return
    with cupy.cuda.Device(index):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            yield


@contextlib.contextmanager
def current_device_kept():
    """JAX changes the thread's device for the other frameworks."""
    before = torch.cuda.current_device()
    try:
        yield
    finally:
        cupy.cuda.runtime.setDevice(before)
