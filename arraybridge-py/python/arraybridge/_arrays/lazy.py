"""Read and write arrays part by part: zarr, h5py, tensorstore and whatever else works like them.

What has ``shape``, ``dtype`` and ``__getitem__`` can be read, what has ``__setitem__`` can be
written. The declared functions with ``tiles`` and ``slice_by_slice`` call these functions. One
thread calls them, so no two tiles are written at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.exceptions import TooHardError

from .._core import _known, convert  # type: ignore[import-not-found]
from ..exceptions import MemoryConversionError

__all__: list[str] = []

# Stands for an array that was written, until it is replaced by what it was written to.
WRITTEN = object()

# Objects with one of these are in memory, and are converted as they are. `iloc` marks objects whose
# `__getitem__` takes labels, `nnz` sparse ones, and `mask` masked ones, which a conversion refuses.
_IN_MEMORY = (
    "__array_interface__", "__array_struct__", "__cuda_array_interface__", "__dlpack__",
    "iloc", "nnz", "mask",
)  # fmt: skip


def _dtype(array: Any) -> np.dtype[Any] | None:
    dtype = getattr(array, "dtype", None)
    # tensorstore has a dtype of its own.
    dtype = getattr(dtype, "numpy_dtype", dtype)
    return dtype if isinstance(dtype, np.dtype) else None


def _shape(array: Any) -> tuple[int, ...] | None:
    try:
        return tuple(int(length) for length in array.shape)
    except (AttributeError, TypeError, ValueError):
        return None


def _from_zero(array: Any) -> Any:
    """Return an array whose indexes begin at zero, as those of a part of a tensorstore do not."""
    if _is_tensorstore(array) and any(array.domain.origin):
        return array.translate_to[0]
    return array


def _is_tensorstore(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "tensorstore"


def _stored(array: Any) -> Any:
    """Return what is equal for two objects of one array in a file, also for two parts of it."""
    store = array.kvstore if _is_tensorstore(array) else None
    return array if store is None else store.spec(retain_context=True)


def _is_dask(array: Any) -> bool:
    return hasattr(array, "__dask_graph__") and array.__dask_graph__() is not None


def _is_loaded(array: Any) -> bool:
    """Return whether an array of xarray holds one in memory, of whatever framework."""
    return bool(getattr(getattr(array, "variable", array), "_in_memory", False))


def stand_in(array: Any) -> np.ndarray[Any, Any] | None:
    """Return an array of the same shape and dtype in no memory, or None if it is not lazy."""
    cls = type(array)
    if not hasattr(cls, "__getitem__") or any(hasattr(cls, name) for name in _IN_MEMORY):
        return None
    shape, dtype = _shape(array), _dtype(array)
    if not shape or dtype is None or _is_dask(array) or _is_loaded(array):
        return None
    # Numbers only: text, records and objects are no images. Those of ml_dtypes are of kind V.
    if dtype.kind not in "biufcV" or dtype.type is np.void:
        return None
    return np.broadcast_to(np.zeros((), dtype.newbyteorder("=")), shape)


def read(array: Any, index: Any) -> np.ndarray[Any, Any]:
    """Return a part of an array in memory that no other part has."""
    part = np.asarray(_from_zero(array)[index])
    if part.dtype.kind == "O":
        raise TypeError(f"{type(array).__name__}[..] returned objects instead of {array.dtype}")
    return part if part.flags.owndata else part.copy()


def padded(array: Any, widths: Sequence[tuple[int, int]], mode: str) -> Any:
    """Return an array of the same framework and device with more elements along each axis."""
    framework, _ = _known(array)
    if mode != "constant" and framework in ("torch", "jax", "cupy"):
        # By indexing, which stays on the device and in the graph.
        for axis, width in enumerate(widths):
            if width != (0, 0):
                index = np.pad(np.arange(array.shape[axis]), width, mode)  # type: ignore[call-overload]
                array = array[(slice(None),) * axis + (index,)]
        return array
    host = np.pad(convert(array, "numpy"), widths, mode)  # type: ignore[call-overload]
    if framework == "numpy":
        return host
    device = getattr(array, "device", None) if framework in ("torch", "jax", "cupy") else None
    return convert(host, framework, device=device)


def rows(array: Any) -> int:
    """Return how many positions along the first axis one chunk has, or one if there are none."""
    return (_chunks_of(array, is_written=False) or (1,))[0]


def _chunks_of(array: Any, is_written: bool = True) -> tuple[int, ...] | None:
    """Return the lengths of what is written as a whole, or of what is read as a whole."""
    shape = _shape(array)
    if shape is None:
        return None
    found = getattr(array, "shards", None) if is_written else None
    found = found or getattr(array, "chunks", None)
    if found is None and hasattr(array, "chunk_layout"):
        layout = array.chunk_layout
        found = (layout.write_chunk if is_written else layout.read_chunk).shape
    if found is None:
        found = getattr(array, "encoding", {}).get("preferred_chunks")
        found = found and [found.get(dim, n) for dim, n in zip(array.dims, shape, strict=True)]
    try:
        lengths = tuple(int(length) for length in found or ())
    except (TypeError, ValueError):
        return None
    return lengths if len(lengths) == len(shape) and lengths else None


def chunks(array: Any, out: Any) -> tuple[int, ...]:
    """Return the lengths of the chunks of ``out``, or of ``array`` if ``out`` has none.

    A shard is written as a whole, so it counts as a chunk.
    """
    axes = len(_shape(array) or ())
    for candidate in (out, array):
        found = None if candidate is None else _chunks_of(candidate)
        if found is not None and len(found) == axes:
            return found
    raise ValueError(
        'tiles="chunks" follows the chunks of out or of the first array, and neither has chunks '
        f"for {axes} axes; give the lengths of a tile, such as (512, 512)"
    )


def check_out(out: Any, reads: Sequence[Any], cut: Sequence[Any], function: str) -> np.dtype[Any]:
    """Return the dtype of an object that results are written to.

    Raises ``TypeError`` if it cannot be written to, ``ValueError`` if it has memory of an array
    that is read again after a part was written. Of the arrays in ``cut``, each part is read before
    its result is written.
    """
    shape, known = _shape(out), _known(out)
    if known is not None and known[0] in ("jax", "tensorflow"):
        raise TypeError(f"{function}(): out is an array of {known[0]}, which never changes")
    if shape is None or not hasattr(out, "dtype") or not hasattr(type(out), "__setitem__"):
        raise TypeError(
            f"{function}(): out must be an array with shape, dtype and __setitem__, such as one of "
            f"zarr, h5py or NumPy, not {type(out).__name__}"
        )
    if hasattr(getattr(out, "variable", out), "_in_memory") and not _is_loaded(out):
        raise TypeError(
            f"{function}(): out is an array of xarray that is not in memory, and xarray does not "
            "write to what it was read from; pass the array of the file's own library, such as "
            "zarr or h5py"
        )
    flags = getattr(out, "flags", None)
    if isinstance(out, np.ndarray) and flags is not None and not flags.writeable:
        raise ValueError(f"{function}(): out is read-only")
    dtype = _dtype(out)
    if dtype is None and known is not None:
        dtype = convert(out[tuple(slice(0, 0) for _ in shape)], "numpy").dtype
    if dtype is None:
        raise TypeError(f"{function}(): out has no dtype of NumPy's; its dtype is {out.dtype!r}")
    if any(_is_same(out, array) for array in reads):
        raise ValueError(
            f"{function}(): out is an array that is read again after a part of it was written, for "
            "a tile with a halo or as an argument that is not cut; write to another array"
        )
    if any(_is_moved(out, array) for array in cut):
        raise ValueError(
            f"{function}(): out shares memory with an array that is cut, at other places: a part "
            "would be read after the result of another one was written there; write to another "
            "array, or to the same one"
        )
    return dtype


def _memory(array: Any) -> np.ndarray[Any, Any] | None:
    """Return an array of NumPy with the addresses of an array, which may be on a device."""
    if getattr(array, "requires_grad", False) is True:
        array = array.detach()
    try:
        described = array.__cuda_array_interface__
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return _on_host(array)
    fields = {key: described.get(key) for key in ("shape", "typestr", "data", "strides")}
    return np.asarray(SimpleNamespace(__array_interface__={**fields, "version": 3}))


def overlap(one: Any, other: Any) -> bool:
    """Return whether two arrays have a byte in common, or may have: some are too hard to tell."""
    ours, theirs = _memory(one), _memory(other)
    if ours is None or theirs is None:
        return False
    try:
        return np.shares_memory(ours, theirs, max_work=10_000)
    except TooHardError:
        return True


def overlaps_itself(array: Any) -> bool:
    """Return whether elements of an array may share memory with each other."""
    memory = _memory(array)
    if memory is None or memory.size == 0:
        return False
    end, axes = memory.itemsize, zip(memory.strides, memory.shape, strict=True)
    for stride, length in sorted((abs(stride), length) for stride, length in axes):
        if length > 1 and stride < end:
            return True
        end += stride * (length - 1)
    return False


def _is_moved(out: Any, array: Any) -> bool:
    """Return whether two arrays share memory, but not each element with that at its own place."""
    if not overlap(out, array):
        return False
    ours, theirs = _memory(out), _memory(array)
    assert ours is not None and theirs is not None
    axes = min(ours.ndim, theirs.ndim)
    return ours.ctypes.data != theirs.ctypes.data or ours.strides[:axes] != theirs.strides[:axes]


def _on_host(array: Any) -> np.ndarray[Any, Any] | None:
    """Return an array of a framework as one of NumPy on the same memory, if there is one."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return convert(array, "numpy", copy=False) if _known(array) else None
    except (MemoryConversionError, RuntimeError, TypeError, ValueError):
        return None


def _is_same(out: Any, array: Any) -> bool:
    ours, theirs = _on_host(out), _on_host(array)
    if ours is not None and theirs is not None:
        return np.may_share_memory(ours, theirs)
    try:
        # Two objects of one data set of a file are equal.
        ours, theirs = _stored(out), _stored(array)
        return out is array or type(ours) is type(theirs) and bool(ours == theirs)
    except (TypeError, ValueError, RuntimeError):
        return False


def write(
    out: Any, shape: tuple[int, ...], index: tuple[Any, ...], array: Any, function: str
) -> None:
    """Write an array to a region of ``out``, which must have this shape."""
    found = _shape(out)
    if found != shape:
        raise ValueError(
            f"{function}(): out has the shape {found}, and the result the shape {shape}"
        )
    known = _known(out)
    if known is not None and known[0] != "numpy":
        array = convert(array, known[0])
    _from_zero(out)[index] = array
