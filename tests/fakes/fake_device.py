"""What the fake frameworks do with the fake driver: memory from its pools, work on its streams.

A framework allocates from a pool that is its own in reality; here all share the driver's, by
stream.
"""

from __future__ import annotations

import contextlib
import ctypes

import numpy as np

driver: ctypes.CDLL | None = None


def attach() -> ctypes.CDLL:
    """Use the fake driver from here on."""
    global driver
    driver = ctypes.CDLL("libcuda.so.1")
    for name in ("fake_calls", "fake_violations"):
        getattr(driver, name).restype = ctypes.c_char_p
    driver.fake_allocated.restype = ctypes.c_long
    driver.fake_pool_allocate.restype = ctypes.c_uint64
    driver.cuInit(0)
    return driver


def check(code: int) -> None:
    """Raise what the driver reports."""
    if code:
        raise RuntimeError(f"CUDA error {code}")


def allocate(nbytes: int, stream: int) -> ctypes.Array:
    """Memory from the pool of a stream of the current device."""
    start = driver.fake_pool_allocate(ctypes.c_void_p(stream), ctypes.c_size_t(nbytes))
    if not start:
        raise MemoryError("the fake device has no memory left")

    class Block(ctypes.c_char * max(nbytes, 1)):
        def __del__(self, free=driver.fake_pool_free, start=start) -> None:
            free(ctypes.c_uint64(start))

    return Block.from_address(start)


def empty(shape: tuple[int, ...], dtype: object, stream: int) -> np.ndarray:
    """An array in memory of a stream's pool. It must be read through the device only."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    block = allocate(count * dtype.itemsize, stream)
    return np.frombuffer(block, dtype, count).reshape(shape)


def adopt(host: np.ndarray, device: int) -> None:
    """Let host memory count as a device's. It is kept for the rest of the process."""
    base = host
    while isinstance(base.base, np.ndarray):
        base = base.base
    _adopted.append(base)
    low, high = np.lib.array_utils.byte_bounds(base) if base.size else (base.ctypes.data,) * 2
    driver.fake_adopt(ctypes.c_uint64(low), ctypes.c_size_t(high - low), device)


_adopted: list[np.ndarray] = []


def bounds(array: np.ndarray) -> tuple[ctypes.c_uint64, ctypes.c_size_t]:
    """Where the bytes of an array are."""
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
    return ctypes.c_uint64(low), ctypes.c_size_t(high - low)


def upload(host: np.ndarray, stream: int) -> np.ndarray:
    """Device memory with the values of host memory."""
    host = np.array(host, order="C")
    array = empty(host.shape, host.dtype, stream)
    if host.size:
        to, nbytes = bounds(array)
        source = ctypes.c_void_p(host.ctypes.data)
        check(driver.cuMemcpyHtoDAsync_v2(to, source, nbytes, ctypes.c_void_p(stream)))
    return array


def download(array: np.ndarray, stream: int, order: str = "C") -> np.ndarray:
    """The values on the host, when the stream has come to them."""
    driver.fake_read(b"a download", *bounds(array), ctypes.c_void_p(stream))
    check(driver.cuStreamSynchronize(ctypes.c_void_p(stream)))
    return array.copy(order)


def copy(array: np.ndarray, stream: int, order: str = "C") -> np.ndarray:
    """The same values in new memory."""
    if not array.flags.c_contiguous:
        return upload(download(array, stream, order), stream)
    made = empty(array.shape, array.dtype, stream)
    if array.size:
        (to, nbytes), (source, _) = bounds(made), bounds(array)
        check(driver.cuMemcpyDtoDAsync_v2(to, source, nbytes, ctypes.c_void_p(stream)))
    return made


def affine(name: str, array: np.ndarray, factor: float, offset: float, stream: int) -> np.ndarray:
    """A kernel of contiguous float32: array * factor + offset, in new memory."""
    assert array.dtype == "float32" and array.flags.c_contiguous, "one kernel is enough"
    made = empty(array.shape, array.dtype, stream)
    (start, nbytes), (source, _) = bounds(made), bounds(array)
    numbers = ctypes.c_float(factor), ctypes.c_float(offset)
    driver.fake_affine(name.encode(), start, source, nbytes, *numbers, ctypes.c_void_p(stream))
    return made


def order(first: int, second: int) -> None:
    """Let one stream wait for another one of the current device."""
    event = ctypes.c_void_p()
    check(driver.cuEventCreate(ctypes.byref(event), 2))
    check(driver.cuEventRecord(event, ctypes.c_void_p(first)))
    check(driver.cuStreamWaitEvent(ctypes.c_void_p(second), event, 0))
    check(driver.cuEventDestroy_v2(event))


def create_stream(non_blocking: bool) -> int:
    """A new stream of the current device."""
    stream = ctypes.c_void_p()
    check(driver.cuStreamCreate(ctypes.byref(stream), int(non_blocking)))
    return stream.value


def destroy_stream(stream: int) -> None:
    """The end of a stream."""
    driver.cuStreamDestroy_v2(ctypes.c_void_p(stream))


def place_of(capsule: object) -> ctypes.Array:
    """Where a capsule says what device its memory is on: the type, and the number."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    tensor = api.PyCapsule_GetPointer(capsule, name) + 32 * name.endswith(b"_versioned")
    return (ctypes.c_int32 * 2).from_address(tensor + 8)


def labelled(capsule: object, device_type: int, device: int) -> object:
    """The same capsule, whose memory is said to be on another device."""
    place_of(capsule)[:] = [device_type, device]
    return capsule


def device_of(capsule: object) -> int | None:
    """The number of the device that a capsule's memory is on; None for the host."""
    kind, index = place_of(capsule)
    return index if kind == 2 else None


class Lent:
    """A capsule as NumPy imports it."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        return self._capsule


def imported(capsule: object) -> np.ndarray:
    """The memory of a device capsule, as NumPy sees it."""
    return np.from_dlpack(Lent(labelled(capsule, 1, 0)))


class OwnStreams:
    """The streams of a framework that keeps them to itself: one for each device."""

    def __init__(self) -> None:
        self._streams: dict[int, int] = {}

    @contextlib.contextmanager
    def on(self, index: int):
        """Make the device current, and give the stream."""
        before = driver.fake_current()
        driver.fake_make_current(index)
        try:
            if index not in self._streams:
                self._streams[index] = create_stream(non_blocking=True)
            yield self._streams[index]
        finally:
            driver.fake_make_current(max(before, 0))
