"""A fake CuPy: NumPy arrays that claim to be on a CUDA device.

By itself it checks control flow only: which operation is called, in which device's scope, in which
order, and what happens when one fails. After `attach()` its memory and its work are the fake
driver's (see `fake_cuda`), and it follows CuPy 14's rules of devices, streams and pools. Each rule
names the function of CuPy in which it was read. It does not show that anything works with CuPy or
on a device.

`mount()` puts it into `sys.modules` as `cupy`. `LOG` holds the calls. With `SHARES`, arrays are
exported and imported by DLPack without the fake driver, too.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types

import fake_device
import numpy as np

__version__ = "14.2.0+fake"

LOG: list[str] = []
DEVICES = 2
SHARES = False
FAIL: dict[str, BaseException] = {}

_state = threading.local()
_next_address = 0x7000_0000_0000


def _called(name: str) -> None:
    _check_runtime()
    LOG.append(f"{name} on {current_device()}")
    if name in FAIL:
        raise FAIL[name]


def attach():
    """Work on the fake driver, which is given back."""
    global _driver
    _driver = fake_device.attach()
    _use(0)
    return _driver


_driver = None


def current_device() -> int:
    """The device of this thread. CUDA's runtime takes it from the context that is current."""
    if _driver is not None:
        return max(_driver.fake_current(), 0)
    return getattr(_state, "device", 0)


def _use(device: int) -> None:
    _state.device = device
    if _driver is not None:
        _driver.fake_make_current(device)


class CUDARuntimeError(RuntimeError):
    """The error of the CUDA runtime."""

    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError {status}")
        self.status = status


CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


def _check_runtime() -> None:
    # Every call of the runtime fails in a process that was forked from one that used CUDA.
    if _driver is not None and _driver.fake_lost():
        raise CUDARuntimeError(3)


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
        _check_runtime()
        if not 0 <= self.id < DEVICES:
            raise CUDARuntimeError(101)
        self._before.append(current_device())
        _use(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        _use(self._before.pop())


Device.__module__ = "cupy.cuda.device"


class _BaseStream:
    """A stream, and the scope in which it is the current one of its device."""

    def __init__(self, ptr: int, device_id: int) -> None:
        self.ptr = ptr
        self.device_id = device_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BaseStream) and other.ptr == self.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def __enter__(self) -> _BaseStream:
        LOG.append("enter stream")
        # cupy/cuda/stream.pyx, check_stream_device_match: a stream is refused on another device.
        device = current_device() if self.device_id == -1 else self.device_id
        if device != current_device():
            raise RuntimeError(
                f"The device that the stream is created on ({device}) does not match with the "
                f"current device ({current_device()})"
            )
        # cupy/cuda/stream.pyx, _ThreadLocal.push_stream: a stack for each device and thread.
        _streams(device).append(self)
        _entered().append(device)
        return self

    def __exit__(self, *error: object) -> None:
        LOG.append("leave stream")
        # cupy/cuda/stream.pyx, _ThreadLocal.pop_stream, which ends in set_current_stream: a stream
        # without a device (that of ExternalStream) becomes current on the device that is current
        # then.
        device = _entered().pop()
        _streams(device).pop()
        assert _streams(device)[-1].device_id in (-1, device)

    def synchronize(self) -> None:
        LOG.append("synchronize stream")
        if _driver is not None:
            fake_device.check(_driver.cuStreamSynchronize(fake_device.ctypes.c_void_p(self.ptr)))


class Stream(_BaseStream):
    """A stream of its own, or the default one. It goes with the object."""

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self._owned = not null and _driver is not None
        # cupy/cuda/stream.pyx, Stream.__init__: the device is that which is current, none for
        # `null`.
        if self._owned:
            # Every call of CUDA's runtime, as cudaStreamCreate, makes a context current on a new
            # thread.
            _use(current_device())
        ptr = fake_device.create_stream(non_blocking) if self._owned else 0
        super().__init__(ptr, -1 if null else current_device())

    def __del__(self) -> None:
        # cupy/cuda/stream.pyx, Stream.__del__
        if getattr(self, "_owned", False):
            fake_device.destroy_stream(self.ptr)

    @staticmethod
    def from_external(stream: object) -> _BaseStream:
        # cupy/cuda/stream.pyx, Stream.from_external: by the protocol, without a device.
        version, ptr = stream.__cuda_stream__()
        assert version == 0
        made = _ExternalStream(ptr, -1)
        made._owner = stream
        return made


class _ExternalStream(_BaseStream):
    """A stream of another owner."""


Stream.null = Stream(null=True)


def _streams(device: int) -> list[_BaseStream]:
    # cupy/cuda/stream.pyx, _ThreadLocal.__init__: the null stream is the first of each stack.
    if not hasattr(_state, "streams"):
        _state.streams = [[Stream.null] for _ in range(8)]
    return _state.streams[device]


def _entered() -> list[int]:
    if not hasattr(_state, "entered"):
        _state.entered = []
    return _state.entered


def get_current_stream(device_id: int = -1) -> _BaseStream:
    """The stream of this thread on a device."""
    return _streams(current_device() if device_id == -1 else device_id)[-1]


def _current() -> int:
    return get_current_stream().ptr


class ndarray:  # noqa: N801 - it is named as CuPy names it
    """Host memory that reports a made-up device address."""

    def __init__(self, host: np.ndarray) -> None:
        global _next_address
        self._host = host
        self._device = current_device()
        self._address = _next_address
        _next_address += 1 << 20
        if _driver is not None:
            self._address = host.ctypes.data
            fake_device.adopt(host, self._device)

    @classmethod
    def _of_memory(cls, memory: np.ndarray, device: int) -> ndarray:
        self = object.__new__(cls)
        self._host, self._device, self._address = memory, device, memory.ctypes.data
        return self

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
        if _driver is None and not SHARES:
            raise BufferError("a fake array has no device memory to export")
        LOG.append(f"export for stream {stream}")
        # cupy/_core/core.pyx, ndarray.__dlpack__: on the array's device, the consumer's stream
        # waits for the current one.
        with Device(self._device):
            if _driver is not None and stream != -1 and (stream or 1) != (_current() or 1):
                fake_device.order(_current(), stream or 1)
        capsule = self._host.__dlpack__(max_version=max_version)
        return fake_device.labelled(capsule, 2, self._device)

    def __array__(self, *args: object, **options: object) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
        _called("get")
        if _driver is not None:
            # cupy/_core/core.pyx, ndarray.get: the current stream of the array's device, and it
            # waits.
            with Device(self._device):
                return fake_device.download(self._host, _current(), order)
        return self._host.copy(order)

    def copy(self, order: str = "C") -> ndarray:
        _called("copy")
        if _driver is None:
            return ndarray(self._host.copy(order))
        if self._device == current_device() or self._host.flags.c_contiguous:
            # cupy/_core/core.pyx, ndarray.copy: on the current device, from the array's.
            made = fake_device.copy(self._host, _current(), order)
            return ndarray._of_memory(made, current_device())
        with Device(self._device):
            contiguous = self.copy(order)
        return contiguous.copy(order)

    def __add__(self, number: float) -> ndarray:
        made = fake_device.affine("cupy's sum", self._host, 1, number, _current())
        return ndarray._of_memory(made, current_device())

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
    if _driver is not None:
        return ndarray._of_memory(fake_device.upload(data, _current()), current_device())
    return ndarray(np.array(data))


def empty(shape, dtype=float):
    """Memory of the pool of the current stream."""
    # cupy/cuda/memory.pyx, SingleDeviceMemoryPool._arenas: by the current stream when it is
    # allocated.
    made = fake_device.empty(shape, dtype, _current())
    return ndarray._of_memory(made, current_device())


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
    if _driver is None and not SHARES:
        raise BufferError("the fake has no device memory to import")
    # cupy/_core/dlpack.pyx, from_dlpack: on the array's device, with the current stream there.
    device = array.__dlpack_device__()[1]
    with Device(device):
        capsule = array.__dlpack__(stream=_current() or 1, max_version=(1, 0))
    return ndarray._of_memory(fake_device.imported(capsule), device)


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
    _check_runtime()
    if DEVICES == 0:
        raise CUDARuntimeError(35)
    return DEVICES


def _get_device() -> int:
    _check_runtime()
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
