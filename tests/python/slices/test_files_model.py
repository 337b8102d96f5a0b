"""Tiles and slices of arrays in files, compared with plain loops over NumPy arrays."""

import collections
import io
import itertools

import arraybridge as ab
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watched import Watched

zarr = pytest.importorskip("zarr", minversion="3")
h5py = pytest.importorskip("h5py")

many = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stored(kind, shape, dtype, chunks, shards):
    """An empty array of a kind. Shards have whole chunks."""
    if kind == "numpy":
        return np.zeros(shape, dtype)
    if kind == "h5py":
        file = h5py.File(io.BytesIO(), "w")
        return file.create_dataset("a", shape, dtype, chunks=tuple(map(min, chunks, shape)))
    shards = None if kind == "zarr" else tuple(c * s for c, s in zip(chunks, shards, strict=True))
    store = zarr.storage.MemoryStore()
    return zarr.create_array(store, shape=shape, chunks=chunks, shards=shards, dtype=dtype)


@st.composite
def files(draw, min_axes=1):
    """The kind, the shape, the chunks and the shards of an array."""
    axes = draw(st.integers(min_axes, 4))
    numbers = [draw(st.lists(st.integers(1, n), min_size=axes, max_size=axes)) for n in (9, 4, 3)]
    kind = draw(st.sampled_from(("zarr", "sharded", "h5py", "numpy")))
    return kind, *map(tuple, numbers)


def filled(file, dtype, events):
    kind, shape, chunks, shards = file
    data = np.random.default_rng(len(events)).integers(1, 200, shape).astype(dtype)
    array = stored(kind, shape, dtype, chunks, shards)
    array[...] = data
    return data, Watched(array, events)


def spans_of(length, tile, halo):
    """Where the tiles along an axis are read and kept."""
    if tile is None:
        return [(0, length, 0, length)]
    starts = range(0, length, tile)
    kept = [(start, min(start + tile, length)) for start in starts]
    return [(max(0, a - halo), min(length, b + halo), a, b) for a, b in kept]


def beyond(span, tile, halo):
    """How much a tile is padded before and after."""
    start, stop, first, _ = span
    return (0, 0) if tile is None else (halo - (first - start), first + tile + halo - stop)


@given(
    file=files(),
    target=files(),
    lengths=st.lists(st.one_of(st.none(), st.integers(1, 6)), min_size=1, max_size=4),
    halo=st.integers(0, 4),
    pad=st.sampled_from((None, "reflect", "edge", "constant")),
    workers=st.integers(1, 3),
    by_chunks=st.booleans(),
)
@many
def test_tiles_are_read_and_written_as_in_a_plain_loop(
    file, target, lengths, halo, pad, workers, by_chunks
):
    events = []
    image, source = filled(file, "uint8", events)
    axes = image.ndim
    kind, _, chunks, shards = target
    chunks, shards = ((each * 4)[:axes] for each in (chunks, shards))
    sink = Watched(stored(kind, image.shape, "float32", chunks, shards), events)
    lengths = lengths[:axes]
    if by_chunks:
        found = getattr(sink, "shards", None) or getattr(sink, "chunks", None)
        found = found or getattr(source, "shards", None) or getattr(source, "chunks", None)
        lengths = list(found or [3] * axes)
        tiles = "chunks" if found else tuple(lengths)
    else:
        lengths = lengths if any(lengths) else [2]
        tiles = tuple(lengths)
    whole = [None] * (axes - len(lengths)) + lengths
    mode = {} if pad is None else {"pad": pad}
    seen = []

    def kernel(tile):
        seen.append(tile.copy())
        # What is kept depends on its neighbours, and on its place in the tile.
        return np.cumsum(tile, axis=-1, dtype="float32")

    declared = ab.numpy(kernel, tiles=tiles, halo=halo, workers=workers, **mode)
    assert declared(source, out=sink) is sink

    expected, reads, writes, shown = np.zeros(image.shape, "float32"), [], [], []
    cuts = [spans_of(n, t, halo) for n, t in zip(image.shape, whole, strict=True)]
    for tile in itertools.product(*cuts):
        read = tuple(slice(a, b) for a, b, _, _ in tile)
        kept = tuple(slice(a, b) for _, _, a, b in tile)
        part = image[read]
        added = [(0, 0)] * axes
        if pad is not None:
            added = [beyond(span, t, halo) for span, t in zip(tile, whole, strict=True)]
            part = np.pad(part, added, pad)
        trim = tuple(
            slice(before + c - a, before + d - a)
            for (before, _), (a, _, c, d) in zip(added, tile, strict=True)
        )
        expected[kept] = np.cumsum(part, axis=-1, dtype="float32")[trim]
        reads.append(read)
        writes.append(kept)
        shown.append(part)
    assert np.array_equal(sink.array[...], expected)
    full = [slice(0, n) for n in image.shape]

    def normal(index):
        return tuple(
            f if i == slice(None) else slice(i.start, i.stop)
            for i, f in zip(index, full, strict=True)
        )

    found = [normal(index) for what, index in events if what == "read"]
    blocks = getattr(source, "chunks", None)
    if blocks is None or (
        not halo and all(n is None or n % c == 0 for n, c in zip(whole, blocks, strict=True))
    ):
        assert found == reads
    else:
        # Tiles share chunks, each of which is decoded once.
        decoded = collections.Counter(
            place
            for index in found
            for place in itertools.product(
                *(range(i.start // c, -(-i.stop // c)) for i, c in zip(index, blocks, strict=True))
            )
        )
        counts = [-(-n // c) for n, c in zip(image.shape, blocks, strict=True)]
        assert decoded == dict.fromkeys(itertools.product(*map(range, counts)), 1)
    assert [normal(index) for what, index in events if what == "write"] == writes
    if workers == 1:
        assert all(map(np.array_equal, seen, shown))
    if pad is not None:
        assert len({tile.shape for tile in seen}) == 1
    # No more tiles are in memory than there are workers.
    outside = itertools.accumulate(1 if what == "read" else -1 for what, _ in events)
    assert max(outside) <= workers


@given(file=files(min_axes=2), target=files(min_axes=2), data=st.data())
@many
def test_slices_are_read_and_written_as_in_a_plain_loop(file, target, data):
    events = []
    stack, source = filled(file, "int16", events)
    axes = stack.ndim
    inner = data.draw(st.lists(st.integers(0, axes - 1), min_size=1, max_size=axes, unique=True))
    named = tuple(axis - axes if data.draw(st.booleans()) else axis for axis in inner)
    kind, _, chunks, shards = target
    chunks, shards = ((each * 2)[:axes] for each in (chunks, shards))
    sink = Watched(stored(kind, stack.shape, "int32", chunks, shards), events)
    leading = [axis for axis in range(axes) if axis not in inner]
    gains = np.random.default_rng(0).integers(1, 9, [stack.shape[axis] for axis in leading])
    has_gains = bool(leading) and data.draw(st.booleans())

    def kernel(part, gain):
        return part[::-1].astype("int32") * gain + part

    declared = ab.numpy(kernel, slice_by_slice=True, slice_axes=named, sliced="gain")
    gain = Watched(gains, []) if has_gains and data.draw(st.booleans()) else gains
    assert declared(source, gain if has_gains else 2, out=sink) is sink
    expected = np.flip(stack, min(inner)).astype("int32")
    factor = np.expand_dims(gains, sorted(inner)) if has_gains else 2
    expected = expected * factor + stack
    assert np.array_equal(sink.array[...], expected)
    assert np.array_equal(declared(source, gain if has_gains else 2), expected)
    # One slice is read, and written before the next one.
    if leading:
        kinds = [what for what, _ in events]
        count = int(np.prod([stack.shape[axis] for axis in leading]))
        assert kinds[: 2 * count] == ["read", "write"] * count


@given(
    file=files(min_axes=2), lengths=st.lists(st.integers(1, 5), min_size=2, max_size=2),
    workers=st.integers(1, 3),
)  # fmt: skip
@many
def test_numbers_of_tiles_are_joined_beside_what_is_written(file, lengths, workers):
    events = []
    image, source = filled(file, "uint16", events)
    sink = np.zeros(image.shape, "uint16")
    declared = ab.numpy(
        lambda tile: (tile + 1, int(tile.sum()), int(tile.max()), tile > 100),
        tiles=tuple(lengths),
        workers=workers,
        join=("concatenate", "sum", "max", "concatenate"),
    )
    written, total, largest, mask = declared(source, out=sink)
    assert written is sink and np.array_equal(sink, image + 1)
    assert (total, largest) == (image.sum(), image.max())
    assert mask.dtype == bool and np.array_equal(mask, image > 100)
    again = declared(source)
    assert np.array_equal(again[0], image + 1) and again[1:3] == (total, largest)


KINDS = ("zarr", "sharded", "h5py")


@given(
    count=st.integers(1, 7), shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    kinds=st.lists(st.sampled_from((*KINDS, "numpy", "plain")), min_size=7, max_size=7),
    dtypes=st.lists(st.sampled_from(("uint8", "int16", "float32")), min_size=7, max_size=7),
    to=st.sampled_from((*KINDS, "numpy")),
)  # fmt: skip
@many
def test_slices_in_files_are_stacked_one_by_one(count, shape, kinds, dtypes, to):
    events, images, given_ = [], [], []
    for index in range(count):
        kind, dtype = kinds[index], dtypes[index]
        image = np.random.default_rng(index).integers(0, 99, shape).astype(dtype)
        images.append(image)
        array = stored("numpy" if kind == "plain" else kind, shape, dtype, (2, 2), (2, 1))
        array[...] = image
        given_.append(array if kind == "plain" else Watched(array, events))
    expected = np.stack(images)
    made = ab.stack_slices(given_, "numpy")
    assert made.dtype == expected.dtype and np.array_equal(made, expected)
    events.clear()
    sink = Watched(stored(to, expected.shape, "float64", (1, 2, 2), (2, 2, 1)), events)
    assert ab.stack_slices(given_, out=sink) is sink
    assert np.array_equal(sink.array[...], expected)
    # Each is written before the next one is read.
    wanted = [("write",) if kind == "plain" else ("read", "write") for kind in kinds[:count]]
    assert [what for what, _ in events] == list(itertools.chain(*wanted))


@given(
    shape=st.tuples(*[st.integers(1, 7)] * 3), kind=st.sampled_from(KINDS),
    chunks=st.tuples(*[st.integers(1, 4)] * 3), target=st.sampled_from(("numpy", "torch", "jax")),
)  # fmt: skip
@many
def test_a_stack_in_a_file_is_taken_apart_chunk_by_chunk(shape, kind, chunks, target):
    events = []
    stack, source = filled((kind, shape, chunks, (1, 2, 3)), "int16", events)
    slices = ab.unstack_slices(source, target)
    assert {ab.detect_memory_type(each) for each in slices} == {target}
    assert np.array_equal([np.asarray(each) for each in slices], stack)
    rows = min(chunks[0], shape[0]) if kind == "h5py" else chunks[0]
    assert len(events) == -(-shape[0] // rows)
    events.clear()
    outs = [np.zeros(shape[1:], "float64") for _ in stack]
    sinks = [Watched(out, events) for out in outs]
    assert ab.unstack_slices(source, out=sinks) == sinks
    assert np.array_equal(outs, stack)
    assert [what for what, _ in events] == ["read", "write"] * len(stack)
