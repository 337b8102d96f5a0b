"""A small fake pyclesperanto on two CUDA devices: what conversions ask for.

CuPy does its work. An upload and a download are waited for, as they are in CLIc. The real one
leaves the context of the device current, and this one does not. It is no evidence that anything
works with pyclesperanto. `mount()` puts it into `sys.modules`.
"""

from __future__ import annotations

import sys
import types

import cupy
import numpy as np

DEVICES = [types.SimpleNamespace(index=index) for index in range(2)]


class _Array:
    """Memory of a CUDA device."""

    def __init__(self, memory: cupy.ndarray, device: object) -> None:
        self._memory, self.device = memory, device

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)

    def get(self) -> np.ndarray:
        """A download, which is waited for."""
        with cupy.cuda.Device(self.device.index), cupy.cuda.Stream(non_blocking=True):
            return self._memory.get()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device.index)

    def __dlpack__(self, **options: object) -> object:
        raise AssertionError("no capsule is asked for: the table lists no export")


_Array.__module__ = "pyclesperanto_cuda._pyclesperanto"


def push(array: np.ndarray, device: object) -> _Array:
    """An upload, which is waited for."""
    # clic/src/cudabackend.cpp, performMemcpy: cuMemcpy.
    with cupy.cuda.Device(device.index), cupy.cuda.Stream(non_blocking=True) as stream:
        memory = cupy.asarray(array)
        stream.synchronize()
    return _Array(memory, device)


def list_available_devices(kind: str) -> list[object]:
    """The devices; none of them is the host's processor."""
    return DEVICES if kind == "all" else []


def get_device() -> object:
    """The device that was selected last."""
    return DEVICES[0]


def select_device(index: int) -> object:
    """A device by its number. The real one would stay selected."""
    return DEVICES[index]


def mount() -> types.ModuleType:
    """Make `import pyclesperanto` give this module."""
    module = sys.modules[__name__]
    sys.modules["pyclesperanto"] = module
    return module
