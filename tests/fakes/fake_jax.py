"""A small fake JAX on the fake driver: arrays of a framework that keeps its streams to itself.

Like XLA it allocates on a stream of its own, uses a freed block at once, has an export wait for the
work that made an array, and has its imports wait for the producer. It is no evidence that
anything works with JAX. `mount()` puts it into `sys.modules`.
"""

from __future__ import annotations

import contextlib
import sys
import types

import fake_device
import numpy as np

__version__ = "0.12.0+fake"
# The version of DLPack that it asks producers for; before 0.12, JAX asks for none.
DLPACK_VERSION: tuple[int, int] | None = (1, 3)
config = types.SimpleNamespace(jax_enable_x64=True, jax_default_device=None)
# The device's own stream, on which everything is computed and allocated.
_on = fake_device.OwnStreams().on


class Device:
    """A device, and what XLA computes on."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.index == self.index

    def __hash__(self) -> int:
        return self.index


class ArrayImpl:
    """An array in memory of a device."""

    sharding = types.SimpleNamespace(num_devices=1)

    def __init__(self, memory: np.ndarray, index: int) -> None:
        self._host, self._index = memory, index

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    device = property(lambda self: Device(self._index))

    def is_deleted(self) -> bool:
        return False

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self._index)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        with _on(self._index) as own:
            fake_device.order(own, stream or 1)
        capsule = self._host.__dlpack__(max_version=max_version)
        return fake_device.labelled(capsule, 2, self._index)

    def __add__(self, number: float) -> ArrayImpl:
        with _on(self._index) as own:
            made = fake_device.affine("jax's sum", self._host, 1, number, own)
        return ArrayImpl(made, self._index)

    def get(self) -> np.ndarray:
        with _on(self._index) as own:
            return fake_device.download(self._host, own)


ArrayImpl.__module__ = "jaxlib._jax"


def array(data, index: int = 0) -> ArrayImpl:
    """An upload."""
    with _on(index) as own:
        return ArrayImpl(fake_device.upload(data, own), index)


def _capsule_of(data, stream: int):
    """Ask as jax/_src/dlpack.py does: again without a version if the producer does not know it."""
    if DLPACK_VERSION is None:
        return data.__dlpack__(stream=stream)
    try:
        return data.__dlpack__(stream=stream, max_version=DLPACK_VERSION)
    except TypeError:
        return data.__dlpack__(stream=stream)


def _from_dlpack(data, device=None, copy=None) -> ArrayImpl:
    index = data.__dlpack_device__()[1]
    with _on(index) as own:
        capsule = _capsule_of(data, own)
    return ArrayImpl(fake_device.imported(capsule), index)


def block_until_ready(data):
    """Wait for what a function gave."""
    with _on(0) as own:
        fake_device.check(fake_device.driver.cuStreamSynchronize(fake_device.ctypes.c_void_p(own)))
    return data


def local_devices(backend: str) -> list[Device]:
    """The devices of this process. Those of the host are never asked for."""
    assert backend == "gpu", backend
    return [Device(0), Device(1)]


default_device = contextlib.nullcontext
_src = types.SimpleNamespace(
    config=types.SimpleNamespace(default_device=types.SimpleNamespace(value=None))
)
numpy = types.SimpleNamespace(promote_types=np.promote_types, array=array)
dlpack = types.SimpleNamespace(from_dlpack=_from_dlpack)


def device_get(data: ArrayImpl) -> np.ndarray:
    """A download."""
    return data.get()


def mount() -> types.ModuleType:
    """Make `import jax` give this module."""
    module = sys.modules[__name__]
    sys.modules["jax"] = module
    return module
