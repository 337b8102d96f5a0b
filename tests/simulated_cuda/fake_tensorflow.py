"""A small fake TensorFlow on CUDA devices: a framework that keeps its streams to itself.

CuPy does its work. It follows TensorFlow's rules of placement, exports and imports; each names the
function that it was read in. It is no evidence that anything works with TensorFlow. `mount()` puts
it into `sys.modules`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
import warnings

import cupy
import numpy as np

__version__ = "2.21.0+fake"
DEVICES = 2
ALIGNMENT = 64
# tensorflow/core/kernels/inplace_ops.cc: DeepCopy has kernels for some dtypes on a GPU.
DEEP_COPY = {"uint8", "float16", "float32", "float64", "int64"}

_streams: dict[int, cupy.cuda.Stream] = {}
_state = threading.local()


@contextlib.contextmanager
def _on(index: int):
    """The device's own stream, on which everything is computed and allocated."""
    with cupy.cuda.Device(index):
        if index not in _streams:
            _streams[index] = cupy.cuda.Stream(non_blocking=True)
        with _streams[index] as own:
            yield own


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

    def __init__(self, memory: np.ndarray | cupy.ndarray) -> None:
        self._memory = memory
        self._index = memory.device.id if isinstance(memory, cupy.ndarray) else None

    shape = property(lambda self: self._memory.shape)
    ndim = property(lambda self: self._memory.ndim)
    dtype = property(lambda self: _as_dtype(self._memory.dtype.name))

    @property
    def backing_device(self) -> str:
        place = "CPU:0" if self._index is None else f"GPU:{self._index}"
        return f"/job:localhost/replica:0/task:0/device:{place}"

    def numpy(self) -> np.ndarray:
        if self._index is None:
            return self._memory
        with _on(self._index):
            return self._memory.get()

    def __add__(self, number: float) -> EagerTensor:
        # Eigen's kernels assume aligned memory: `Check failed: IsAligned()` ends the process.
        assert self._memory.data.ptr % ALIGNMENT == 0, "Check failed: IsAligned()"
        with _on(self._index):
            return EagerTensor(self._memory + number)

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
        return tensor._memory.__dlpack__()
    with _on(tensor._index) as own:
        own.synchronize()
        return tensor._memory.__dlpack__(stream=-1)


def _from_dlpack(capsule: object) -> EagerTensor:
    # tensorflow/c/eager/dlpack.cc, TFE_HandleFromDLPack: a capsule without a version, whose strides
    # are those of contiguous memory. It waits for nothing.
    if '"dltensor"' not in repr(capsule):
        raise ValueError("The capsule does not contain a DLManagedTensor")
    with warnings.catch_warnings(action="ignore"):
        memory = cupy.fromDlpack(capsule)
    if not memory.flags.c_contiguous:
        raise ValueError("Invalid strides array from DLPack")
    return EagerTensor(memory)


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
        return EagerTensor(np.array(host))
    with _on(index):
        return EagerTensor(cupy.asarray(host))


def constant(data, dtype: DType | None = None) -> EagerTensor:
    """An upload. Tensors of int32 stay on the host."""
    # tensorflow/python/eager/pywrap_tensor.cc, ConvertToEagerTensorUncached: "Almost all TensorFlow
    # kernels for GPU devices keep int32 tensors in host memory", and so does this.
    host = np.array(data, dtype and dtype.as_numpy_dtype)
    return _placed(host, host.dtype != "int32")


def _deep_copy(x: EagerTensor) -> EagerTensor:
    if x._index is None or x.dtype.name not in DEEP_COPY:
        return EagerTensor(np.array(x.numpy()))
    with _on(x._index):
        return EagerTensor(x._memory.copy())


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
