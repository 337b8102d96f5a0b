"""A fake CuPy: NumPy arrays that claim to be on a CUDA device.

It checks control flow only: which operation is called, in which device's scope, in which order, and
what happens when one fails. It does not show that anything works with CuPy or on a device.

`mount()` puts it into `sys.modules` as `cupy`. `LOG` holds the calls. With `SHARES`, arrays are
exported and imported by DLPack.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import types

import numpy as np

__version__ = "14.2.0+fake"

LOG: list[str] = []
DEVICES = 2
SHARES = False
FAIL: dict[str, BaseException] = {}

_state = threading.local()
_next_address = 0x7000_0000_0000


def _called(name: str) -> None:
    LOG.append(f"{name} on {current_device()}")
    if name in FAIL:
        raise FAIL[name]


def current_device() -> int:
    """The device of this thread."""
    return getattr(_state, "device", 0)


class CUDARuntimeError(RuntimeError):
    """The error of the CUDA runtime."""

    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError {status}")
        self.status = status


CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


class OutOfMemoryError(MemoryError):
    """The error of the memory pool."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


class Device:
    """A device, and the scope in which it is current."""

    def __init__(self, device: int | None = None) -> None:
        self.id = current_device() if device is None else int(device)
        self._before: list[int] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __int__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        if not 0 <= self.id < DEVICES:
            raise CUDARuntimeError(101)
        self._before.append(current_device())
        _state.device = self.id
        return self

    def __exit__(self, *error: object) -> None:
        _state.device = self._before.pop()


Device.__module__ = "cupy.cuda.device"


class Stream:
    """The default stream, and the scope in which it is the current one."""

    ptr, device_id = 0, -1

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        pass

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def __enter__(self) -> Stream:
        LOG.append("enter stream")
        return self

    def __exit__(self, *error: object) -> None:
        LOG.append("leave stream")

    def synchronize(self) -> None:
        LOG.append("synchronize stream")


Stream.null = Stream(null=True)


def get_current_stream(device_id: int = -1) -> Stream:
    """The stream of this thread on a device."""
    return Stream.null


def _placed(capsule: object, device_type: int, device: int) -> object:
    """The same capsule, whose memory is said to be on another device."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    tensor = api.PyCapsule_GetPointer(capsule, name) + 32 * name.endswith(b"_versioned")
    (ctypes.c_int32 * 2).from_address(tensor + 8)[:] = [device_type, device]
    return capsule


class _Lent:
    """A capsule of a device as NumPy imports it."""

    def __init__(self, capsule: object) -> None:
        self._capsule = _placed(capsule, 1, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        return self._capsule


class ndarray:  # noqa: N801 - it is named as CuPy names it
    """Host memory that reports a made-up device address."""

    def __init__(self, host: np.ndarray) -> None:
        global _next_address
        self._host = host
        self._device = current_device()
        self._address = _next_address
        _next_address += 1 << 20

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    strides = property(lambda self: self._host.strides)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    device = property(lambda self: Device(self._device))
    data = property(lambda self: types.SimpleNamespace(ptr=self._address))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "strides": None if self._host.flags.c_contiguous else self._host.strides,
            "version": 3,
            "stream": 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self._device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        _called("__dlpack__")
        if dl_device is not None and tuple(dl_device) == (1, 0):
            return self._host.copy().__dlpack__(max_version=max_version)
        if not SHARES:
            raise BufferError("a fake array has no device memory to export")
        LOG.append(f"export for stream {stream}")
        return _placed(self._host.__dlpack__(max_version=max_version), 2, self._device)

    def __array__(self, *args: object, **options: object) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
        _called("get")
        return self._host.copy(order)

    def copy(self, order: str = "C") -> ndarray:
        _called("copy")
        return ndarray(self._host.copy(order))

    def astype(self, dtype, copy=True):
        _called("astype")
        return ndarray(self._host.astype(dtype))


ndarray.__module__ = "cupy"


def _upload(name: str, data: object) -> ndarray:
    _called(name)
    if isinstance(data, ndarray):
        return data
    if DEVICES == 0:
        raise CUDARuntimeError(35)
    return ndarray(np.array(data))


def asarray(a, dtype=None):
    """Copies from the host."""
    return _upload("asarray", a)


def array(obj, dtype=None, copy=True):
    """Copies from the host."""
    return _upload("array", obj)


def from_dlpack(array, *, device=None, copy=None):
    """Refuses host memory, as CuPy does."""
    _called("from_dlpack")
    if array.__dlpack_device__()[0] not in (2, 13):
        raise TypeError("CPU arrays cannot be directly imported to CuPy.")
    if not SHARES:
        raise BufferError("the fake has no device memory to import")
    device = array.__dlpack_device__()[1]
    with Device(device):
        return ndarray(np.from_dlpack(_Lent(array.__dlpack__(stream=1, max_version=(1, 0)))))


def dtype(name):
    """CuPy uses the dtypes of NumPy."""
    return np.dtype(name)


class _Pool:
    def free_all_blocks(self) -> None:
        _called("free_all_blocks")


_pool = _Pool()


def get_default_memory_pool():
    return _pool


def get_default_pinned_memory_pool():
    return _pool


def _count() -> int:
    if DEVICES == 0:
        raise CUDARuntimeError(35)
    return DEVICES


def _get_device() -> int:
    if DEVICES == 0:
        raise CUDARuntimeError(35)
    return current_device()


cuda = types.ModuleType("cupy.cuda")
cuda.Device = Device
cuda.Stream = Stream
cuda.get_current_stream = get_current_stream
cuda.runtime = types.ModuleType("cupy.cuda.runtime")
cuda.runtime.getDeviceCount = _count
cuda.runtime.getDevice = _get_device
cuda.runtime.CUDARuntimeError = CUDARuntimeError
cuda.memory = types.ModuleType("cupy.cuda.memory")
cuda.memory.OutOfMemoryError = OutOfMemoryError


def mount() -> types.ModuleType:
    """Make `import cupy` import this module."""
    module = sys.modules[__name__]
    sys.modules["cupy"] = module
    sys.modules["cupy.cuda"] = cuda
    sys.modules["cupy.cuda.runtime"] = cuda.runtime
    sys.modules["cupy.cuda.memory"] = cuda.memory
    return module


@contextlib.contextmanager
def failing(name: str, error: BaseException):
    """Make one function raise inside the block."""
    FAIL[name] = error
    try:
        yield
    finally:
        del FAIL[name]
