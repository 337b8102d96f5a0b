"""A small fake torch on the fake driver: what conversions and declared functions ask for.

It follows torch's rules of devices and streams; each names the function of torch's that it was read
in. It is no evidence that anything works with torch. `mount()` puts it into `sys.modules`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types

import fake_device
import numpy as np

__version__ = "2.15.0+fake"
strided = "strided"

_state = threading.local()
_DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
for _name in _DTYPES:
    globals()[_name] = f"torch.{_name}"


def _lazy_init() -> None:
    # torch/cuda/__init__.py, _lazy_init. `device_count` asks NVML, which works in a forked process.
    if fake_device.driver.fake_lost():
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
            "must use the 'spawn' start method"
        )


def _now() -> int:
    _lazy_init()
    return max(fake_device.driver.fake_current(), 0)


class device:  # noqa: N801 - torch's name
    """A device."""

    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, _, number = kind.partition(":")
        self.index = int(number) if number else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class Tensor:
    """Memory of a CUDA device, or of the host where there is no index."""

    requires_grad = False
    is_quantized = is_nested = False
    layout = strided
    _version = 0

    def __init__(self, memory: np.ndarray, index: int | None) -> None:
        self._host, self._index = memory, index

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: f"torch.{self._host.dtype.name}")
    device = property(
        lambda self: device("cpu") if self._index is None else device("cuda", self._index)
    )

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def data_ptr(self) -> int:
        return self._host.ctypes.data

    def numel(self) -> int:
        return self._host.size

    def untyped_storage(self) -> object:
        return types.SimpleNamespace(nbytes=lambda: self._host.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self._index is None else (2, self._index)

    def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
        if self._index is None:
            return self._host.__dlpack__(max_version=max_version)
        # torch/_tensor.py, Tensor.__dlpack__: the device has to be current, 0 and 2 are refused.
        if _now() != self._index:
            raise BufferError("Can't export tensors on a different CUDA device index.")
        assert stream != 0, "unsupported stream on CUDA: 0"
        if stream == 2:
            raise BufferError("per-thread default stream is not supported.")
        here = cuda.current_stream().cuda_stream
        if stream != -1 and (stream or 1) != (here or 1):
            fake_device.order(here, stream or 1)
        capsule = self._host.__dlpack__(max_version=max_version)
        return fake_device.labelled(capsule, 2, self._index)

    def __add__(self, number: float) -> Tensor:
        stream = cuda.current_stream(self._index).cuda_stream
        return Tensor(fake_device.affine("torch's sum", self._host, 1, number, stream), self._index)

    def cpu(self) -> np.ndarray:
        with cuda.device(self._index):
            return fake_device.download(self._host, cuda.current_stream().cuda_stream)

    def to(self, there: device) -> Tensor:
        host = self._host if self._index is None else self.cpu()
        if there.type == "cpu":
            return Tensor(host, None)
        with cuda.device(there):
            return tensor(host)

    def clone(self) -> Tensor:
        stream = cuda.current_stream(self._index).cuda_stream
        return Tensor(fake_device.copy(self._host, stream), self._index)


Tensor.__module__ = "torch"


def is_inference_mode_enabled() -> bool:
    return False


def tensor(data) -> Tensor:
    """An upload, into memory of the pool of the current stream."""
    # c10/cuda/CUDACachingAllocator.cpp, malloc: blocks belong to a stream.
    return Tensor(fake_device.upload(data, cuda.current_stream().cuda_stream), _now())


def from_dlpack(data, *, device=None, copy=None) -> Tensor:
    """Shares memory on its device."""
    # torch/utils/dlpack.py, from_dlpack: the current stream of the array's device.
    kind, index = data.__dlpack_device__()
    if kind != 2:
        return Tensor(np.from_dlpack(data), None)
    stream = cuda.current_stream(index).cuda_stream or 1
    capsule = data.__dlpack__(stream=stream, max_version=(1, 0))
    return Tensor(fake_device.imported(capsule), index)


class Stream:
    """A stream of torch's, which is never destroyed."""

    def __init__(self, index: object = None) -> None:
        self.device_index = _index(index)
        with cuda.device(self.device_index):
            self.cuda_stream = fake_device.create_stream(non_blocking=True)


class ExternalStream:
    """A stream of another owner."""

    def __init__(self, stream_ptr: int, device: object = None) -> None:
        self.cuda_stream, self.device_index = stream_ptr, _index(device)


def _index(of: object) -> int:
    return _now() if of is None else getattr(of, "index", of)


def _current() -> dict[int, object]:
    if not hasattr(_state, "streams"):
        _state.streams = {}
    return _state.streams


def _current_stream(of: object = None) -> object:
    _lazy_init()
    default = types.SimpleNamespace(cuda_stream=0, device_index=_index(of))
    return _current().get(_index(of), default)


@contextlib.contextmanager
def _stream_scope(stream):
    # torch/cuda/__init__.py, StreamContext.__enter__: the stream's device becomes the current one.
    with _device_scope(stream.device_index):
        index = stream.device_index
        before = _current().get(index)
        _current()[index] = stream
        try:
            yield stream
        finally:
            if before is None:
                del _current()[index]
            else:
                _current()[index] = before


@contextlib.contextmanager
def _device_scope(of):
    _lazy_init()
    before = fake_device.driver.fake_current()
    fake_device.driver.fake_make_current(_index(of))
    try:
        yield
    finally:
        fake_device.driver.fake_make_current(max(before, 0))


cuda = types.ModuleType("torch.cuda")
cuda.device_count = lambda: 2
cuda.current_device = _now
cuda.device = _device_scope
cuda.Stream = Stream
cuda.ExternalStream = ExternalStream
cuda.current_stream = _current_stream
cuda.stream = _stream_scope
cuda.empty_cache = lambda: None


class OutOfMemoryError(RuntimeError):
    """What the allocator raises."""


_functorch = types.SimpleNamespace(is_functorch_wrapped_tensor=lambda data: False)
_C = types.SimpleNamespace(_functorch=_functorch)


def mount() -> types.ModuleType:
    """Make `import torch` give this module."""
    module = sys.modules[__name__]
    sys.modules.update({"torch": module, "torch.cuda": cuda})
    return module
