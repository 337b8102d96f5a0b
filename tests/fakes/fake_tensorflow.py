"""A small fake TensorFlow on the fake driver: a framework that keeps its streams to itself.

It follows TensorFlow's rules of placement, exports and imports; each names the function that it was
read in. It is no evidence that anything works with TensorFlow. `mount()` puts it into
`sys.modules`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types

import fake_device
import numpy as np

__version__ = "2.21.0+fake"
DEVICES = 2
ALIGNMENT = 64
# tensorflow/core/kernels/inplace_ops.cc: DeepCopy has kernels for some dtypes on a GPU.
DEEP_COPY = {"uint8", "float16", "float32", "float64", "int64"}

# The device's own stream, on which everything is computed and allocated.
_on = fake_device.OwnStreams().on
_state = threading.local()


class DType:
    """A dtype, of which there is one object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.as_numpy_dtype = np.dtype(name).type

    def __repr__(self) -> str:
        return f"tf.{self.name}"


_DTYPES = {
    name: DType(name)
    for name in ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64")
}


def _as_dtype(name: str) -> DType:
    try:
        return _DTYPES[str(name)]
    except KeyError:
        raise TypeError(f"Cannot convert {name!r} to a TensorFlow DType.") from None


def _index(name: str) -> int | None:
    """The number of an accelerator in the name of a device; None for the host."""
    _, kind, number = name.rsplit(":", 2)
    return int(number) if kind == "GPU" else None


class EagerTensor:
    """A tensor in memory of a device or of the host."""

    def __init__(self, memory: np.ndarray, index: int | None) -> None:
        self._host, self._index = memory, index

    shape = property(lambda self: self._host.shape)
    ndim = property(lambda self: self._host.ndim)
    dtype = property(lambda self: _as_dtype(self._host.dtype.name))

    @property
    def backing_device(self) -> str:
        place = "CPU:0" if self._index is None else f"GPU:{self._index}"
        return f"/job:localhost/replica:0/task:0/device:{place}"

    def numpy(self) -> np.ndarray:
        if self._index is None:
            return self._host
        with _on(self._index) as own:
            return fake_device.download(self._host, own)

    def __add__(self, number: float) -> EagerTensor:
        # Eigen's kernels assume aligned memory: `Check failed: IsAligned()` ends the process.
        assert self._host.ctypes.data % ALIGNMENT == 0, "Check failed: IsAligned()"
        with _on(self._index) as own:
            made = fake_device.affine("tensorflow's sum", self._host, 1, number, own)
        return EagerTensor(made, self._index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self._index is None else (2, self._index)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # tensorflow/python/framework/ops.py, _EagerTensorBase.__dlpack__
        for name, refused in (("stream", stream), ("dl_device", dl_device), ("copy", copy or None)):
            if refused is not None:
                text = f"tf.Tensor does not support DLPack export with a non-None {name}"
                raise RuntimeError(text)
        return _to_dlpack(self)


EagerTensor.__module__ = "tensorflow.python.framework.ops"


def _to_dlpack(tensor: EagerTensor) -> object:
    # tensorflow/python/dlpack/dlpack.py, to_dlpack: "ensures the underlying data memory is ready".
    # tensorflow/c/eager/dlpack.cc, TFE_HandleToDLPack: capsules have no version.
    if tensor._index is None:
        return tensor._host.__dlpack__()
    with _on(tensor._index) as own:
        fake_device.check(fake_device.driver.cuStreamSynchronize(fake_device.ctypes.c_void_p(own)))
    return fake_device.labelled(tensor._host.__dlpack__(), 2, tensor._index)


def _from_dlpack(capsule: object) -> EagerTensor:
    # tensorflow/c/eager/dlpack.cc, TFE_HandleFromDLPack: a capsule without a version, whose strides
    # are those of contiguous memory. It waits for nothing.
    if '"dltensor"' not in repr(capsule):
        raise ValueError("The capsule does not contain a DLManagedTensor")
    index = fake_device.device_of(capsule)
    memory = fake_device.imported(capsule)
    if not memory.flags.c_contiguous:
        raise ValueError("Invalid strides array from DLPack")
    return EagerTensor(memory, index)


@contextlib.contextmanager
def device(name: str):
    """Where tensors are made, in this thread."""
    before = getattr(_state, "device", None)
    _state.device = name
    try:
        yield
    finally:
        _state.device = before


def _placed(host: np.ndarray, has_kernel: bool = True) -> EagerTensor:
    """A tensor on the current device. Without a kernel, it is on the host (soft placement)."""
    index = _index(getattr(_state, "device", None) or "/device:GPU:0")
    if index is None or not has_kernel:
        return EagerTensor(np.array(host), None)
    with _on(index) as own:
        return EagerTensor(fake_device.upload(host, own), index)


def constant(data, dtype: DType | None = None) -> EagerTensor:
    """An upload. Tensors of int32 stay on the host."""
    # tensorflow/python/eager/pywrap_tensor.cc, ConvertToEagerTensorUncached: "Almost all TensorFlow
    # kernels for GPU devices keep int32 tensors in host memory", and so does this.
    host = np.array(data, dtype and dtype.as_numpy_dtype)
    return _placed(host, host.dtype != "int32")


def _deep_copy(x: EagerTensor) -> EagerTensor:
    if x._index is None or x.dtype.name not in DEEP_COPY:
        return EagerTensor(np.array(x.numpy()), None)
    with _on(x._index) as own:
        return EagerTensor(fake_device.copy(x._host, own), x._index)


def identity(data: EagerTensor) -> EagerTensor:
    """The same values on the current device."""
    return _placed(data.numpy())


class DeviceSpec:
    """The parts of a device's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def from_string(cls, name: str) -> DeviceSpec:
        return cls(name)

    def replace(self, job: object, replica: object, task: object) -> DeviceSpec:
        return DeviceSpec(self._name[self._name.index("/device:") :])

    def to_string(self) -> str:
        return self._name


def _list_logical_devices(kind: str) -> list[types.SimpleNamespace]:
    count = DEVICES if kind == "GPU" else 1
    return [types.SimpleNamespace(name=f"/device:{kind}:{index}") for index in range(count)]


dtypes = types.SimpleNamespace(as_dtype=_as_dtype)
config = types.SimpleNamespace(list_logical_devices=_list_logical_devices)
raw_ops = types.SimpleNamespace(DeepCopy=_deep_copy)
experimental = types.SimpleNamespace(
    dlpack=types.SimpleNamespace(to_dlpack=_to_dlpack, from_dlpack=_from_dlpack)
)


def mount() -> types.ModuleType:
    """Make `import tensorflow` give this module."""
    module = sys.modules[__name__]
    sys.modules["tensorflow"] = module
    return module
