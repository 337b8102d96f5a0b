"""Read and write arrays part by part: zarr, h5py, tensorstore and whatever else works like them.

What has ``shape``, ``dtype`` and ``__getitem__`` can be read, what has ``__setitem__`` can be
written. The declared functions with ``tiles`` and ``slice_by_slice`` call these functions. One
thread calls them, so no two tiles are written at the same time.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import _known, convert  # type: ignore[import-not-found]

__all__: list[str] = []

# Stands for an array that was written, until it is replaced by what it was written to.
WRITTEN = object()

# The most bytes of chunks that are kept while tiles that follow one another share them.
BAND = 256 << 20

# Objects with one of these are in memory, and are converted as they are. `iloc` marks objects whose
# `__getitem__` takes labels, `magnitude` those with units, `nnz` sparse ones, and `mask` masked
# ones, which a conversion refuses.
_IN_MEMORY = (
    "__array_interface__", "__array_struct__", "__cuda_array_interface__", "__dlpack__",
    "iloc", "magnitude", "nnz", "mask",
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
    """Return whether an array of xarray holds one in memory, of whatever framework or library."""
    variable = getattr(array, "variable", array)
    data = getattr(variable, "_data", None)
    protocols = ("__array_function__", "__array_namespace__")
    is_held = any(hasattr(data, protocol) for protocol in protocols) and not _is_dask(data)
    return bool(getattr(variable, "_in_memory", False)) or is_held


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


def banded(array: Any, cuts: Sequence[tuple[int, int, int]]) -> Any:
    """Return an object that keeps the chunks of an array which tiles share, or the array itself.

    `cuts` are the axis, the length and the halo of the tiles along each axis that is cut. They are
    read in C order.
    """
    shape, chunks, dtype = _shape(array), _chunks_of(array, is_written=False), _dtype(array)
    if shape is None or chunks is None or dtype is None or 0 in shape or 0 in chunks:
        return array
    if all(halo == 0 and length % chunks[axis] == 0 for axis, length, halo in cuts):
        return array
    # How many chunks a tile has along each axis.
    counts = [-(-n // chunk) for n, chunk in zip(shape, chunks, strict=True)]
    for axis, length, halo in cuts:
        counts[axis] = min(counts[axis], (length + 2 * halo - 2) // chunks[axis] + 2)
    most = BAND // (math.prod(chunks) * dtype.itemsize)
    return _Band(array, chunks, cuts, most) if math.prod(counts) <= most else array


class _Band:
    """An array of which a chunk is kept until the last of its tiles was read, if there is room."""

    def __init__(
        self, array: Any, chunks: tuple[int, ...], cuts: Sequence[tuple[int, int, int]], most: int
    ) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.chunks, self.cuts, self.most = chunks, cuts, most
        # By their place among the chunks. Those that were used last are at the end.
        self.kept: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        try:
            return self._read(index)
        except MemoryError:
            self.kept.clear()
            return read(self.array, index)

    def _read(self, index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        spans = [range(n)[i] for n, i in zip(self.shape, index, strict=True)]
        # Several tiles begin at 0 if the halo is longer than a tile. The first of them is taken.
        starts = [(spans[axis].start, length, halo) for axis, length, halo in self.cuts]
        tile = tuple((at + halo) // length if at else 0 for at, length, halo in starts)
        boxes = [(s.start // c, -(-s.stop // c)) for s, c in zip(spans, self.chunks, strict=True)]
        places = [*itertools.product(*(range(*box) for box in boxes))]
        self._fetch([place for place in places if place not in self.kept])
        part = np.empty([len(span) for span in spans], self.kept[places[0]].dtype)
        for place in places:
            chunk = self.kept.pop(place)
            firsts = [at * c for at, c in zip(place, self.chunks, strict=True)]
            ends = [
                (max(s.start, a), min(s.stop, a + n))
                for s, a, n in zip(spans, firsts, chunk.shape, strict=True)
            ]
            there = [slice(a - s.start, b - s.start) for s, (a, b) in zip(spans, ends, strict=True)]
            here = [slice(a - at, b - at) for at, (a, b) in zip(firsts, ends, strict=True)]
            part[tuple(there)] = chunk[tuple(here)]
            if self._last(place) > tile:
                self.kept[place] = chunk
        while len(self.kept) > max(self.most, len(places)):
            del self.kept[next(iter(self.kept))]
        return part

    def _last(self, place: tuple[int, ...]) -> tuple[int, ...]:
        """The last tile that a chunk is in."""
        along = ((axis, length, halo, self.chunks[axis]) for axis, length, halo in self.cuts)
        ends = ((axis, length, halo, (place[axis] + 1) * c) for axis, length, halo, c in along)
        return tuple(
            min((min(end, self.shape[axis]) - 1 + halo) // length, (self.shape[axis] - 1) // length)
            for axis, length, halo, end in ends
        )

    def _fetch(self, missing: list[tuple[int, ...]]) -> None:
        """Read chunks, at once, as their library may decode several at a time."""
        if not missing:
            return
        firsts = [min(along) for along in zip(*missing, strict=True)]
        ends = [max(along) + 1 for along in zip(*missing, strict=True)]
        box = zip(firsts, ends, self.chunks, self.array.shape, strict=True)
        block = read(self.array, tuple(slice(a * c, min(b * c, n)) for a, b, c, n in box))
        for place in missing:
            at = [
                slice((i - a) * c, (i - a + 1) * c)
                for i, a, c in zip(place, firsts, self.chunks, strict=True)
            ]
            # A view would keep the whole block.
            self.kept[place] = block[tuple(at)].copy() if len(missing) > 1 else block


def padded(array: Any, widths: Sequence[tuple[int, int]], mode: str) -> Any:
    """Return an array of the same class, framework and device with more elements along each axis.

    An axis without elements has no edge, and gets zeros in every mode.
    """
    framework, _ = _known(array)
    if framework not in ("numpy", "cupy", "torch", "jax", "tensorflow"):
        return convert(padded(convert(array, "numpy"), widths, mode), framework)
    xp: Any = sys.modules["jax.numpy" if framework == "jax" else framework]
    # Each way stays on the device and in the graph.
    if mode == "constant" or 0 in array.shape:
        if framework == "torch":
            return xp.nn.functional.pad(array, [n for pair in reversed(widths) for n in pair])
        if framework != "numpy":
            return xp.pad(array, widths)
        pairs = [*zip(array.shape, widths, strict=True)]
        # Keeps a mask and a unit, which `numpy.pad` does not.
        whole = np.zeros_like(array, shape=[a + n + b for n, (a, b) in pairs])
        whole[tuple(slice(a, a + n) for n, (a, _) in pairs)] = array
        return whole
    for axis, width in enumerate(widths):
        if width != (0, 0):
            index = np.pad(np.arange(array.shape[axis]), width, mode)  # type: ignore[call-overload]
            if framework == "tensorflow":
                array = xp.gather(array, index, axis=axis)
            else:
                array = array[(slice(None),) * axis + (index,)]
    return array


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


def check_out(out: Any, function: str, is_known: bool) -> np.dtype[Any] | None:
    """Return the dtype of an object that results are written to, if it is not known.

    Raises ``TypeError`` or ``ValueError`` if it cannot be written to.
    """
    if _shape(out) is None or not hasattr(out, "dtype") or not hasattr(type(out), "__setitem__"):
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
    if dtype is None and not is_known:
        raise TypeError(f"{function}(): out has no dtype of NumPy's; its dtype is {out.dtype!r}")
    return dtype


def is_same(out: Any, array: Any) -> bool:
    """Return whether two objects are the same, or the same array in a file."""
    if out is array:
        return True
    if _known(out) is not None or _known(array) is not None:
        return False
    try:
        # Two objects of one data set of a file are equal.
        ours, theirs = _stored(out), _stored(array)
        return type(ours) is type(theirs) and bool(ours == theirs)
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
    _from_zero(out)[index] = array
