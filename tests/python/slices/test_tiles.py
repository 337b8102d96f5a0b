"""Functions that are called for each tile of an image."""

import _thread
import pickle
import signal
import threading
from pathlib import Path

import arraybridge as ab
import bridges
import cloudpickle
import ml_dtypes
import numpy as np
import pytest
from arraybridge import decorators
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

NATIVE = {"dtype_conversion": "native"}


def image(*shape, dtype="float32"):
    values = np.random.default_rng(7).integers(0, 200, shape or (50, 37))
    return values.astype(dtype)


def largest(array):
    """The largest value within two pixels, which tells a halo that is too small."""
    return ndimage.maximum_filter(array, 5)


@given(
    shape=st.lists(st.integers(0, 12), min_size=2, max_size=2),
    lengths=st.lists(st.none() | st.integers(1, 9), min_size=1, max_size=2).filter(any),
    halo=st.integers(2, 20),
    workers=st.sampled_from([1, 3]),
)
@settings(max_examples=100, deadline=None)
def test_tiles_with_a_halo_give_what_the_whole_image_gives(shape, lengths, halo, workers):
    data = image(*shape)
    tiled = ab.numpy(largest, tiles=tuple(lengths), halo=halo, workers=workers)
    np.testing.assert_array_equal(tiled(data), largest(data) if data.size else data)


def test_lengths_beyond_an_axis_stand_for_the_whole_axis():
    data = image()
    for long in (2**63 - 1, 2**64, 10**30, np.uint64(2**64 - 1)):
        shapes = []

        def seen(tile, shapes=shapes):
            shapes.append(tile.shape)
            return largest(tile)

        tiled = ab.numpy(seen, tiles=(long, 10), halo=(0, long))
        np.testing.assert_array_equal(tiled(data), largest(data))
        assert set(shapes) == {data.shape}


def test_without_its_halo_a_filter_sees_the_edge_of_each_tile():
    data = image()
    assert (ab.numpy(largest, tiles=(10, 10))(data) != largest(data)).any()
    assert (ab.numpy(largest, tiles=(10, 10), halo=1)(data) != largest(data)).any()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"halo": 1}, [(5, 5), (5, 4), (3, 5), (3, 4)]), ({"pad": "edge"}, [(4, 4)] * 4)],
    ids=str,
)
@pytest.mark.parametrize("source", bridges.CPU_FRAMEWORKS)
@pytest.mark.parametrize("name", bridges.CPU_FRAMEWORKS)
def test_each_framework_gets_tiles_of_its_own(source, name, options, expected):
    shapes, classes = [], set()

    def double(tile):
        shapes.append(tuple(tile.shape))
        classes.add(type(tile))
        return tile + tile

    tiled = getattr(decorators, name)(double, tiles=(4, 4), output_type="numpy", **options)
    data = image(6, 7)
    np.testing.assert_array_equal(tiled(bridges.make(source, data)), data + data)
    assert shapes == expected and len(classes) == 1
    assert ab.detect_memory_type(bridges.make(name, data)) == name


def test_an_axis_can_be_left_whole():
    shapes = []

    def gray(tile):
        shapes.append(tile.shape)
        return tile.mean(axis=2)

    data = image(6, 8, 3)
    tiled = ab.numpy(gray, tiles=(4, 4, None), **NATIVE)
    np.testing.assert_array_equal(tiled(data), data.mean(axis=2))
    assert shapes == [(4, 4, 3), (4, 4, 3), (2, 4, 3), (2, 4, 3)]


def test_tiles_are_of_the_last_axes_and_slices_are_cut_too():
    shapes = []

    def same(tile):
        shapes.append(tile.shape)
        return tile + 1

    stack = image(3, 6, 5)
    np.testing.assert_array_equal(ab.numpy(same, tiles=(4, 5))(stack), stack + 1)
    assert shapes == [(3, 4, 5), (3, 2, 5)]
    shapes.clear()
    tiled = ab.numpy(same, tiles=(4, 5), slice_by_slice=True)
    np.testing.assert_array_equal(tiled(stack), stack + 1)
    assert shapes == [(4, 5), (2, 5)] * 3


def test_arrays_named_by_sliced_are_cut_with_the_first():
    def masked(tile, mask, by):
        assert tile.shape == mask.shape and by.shape == (2,)
        return np.where(mask, tile * by[0], 0)

    data, mask, by = image(), image() > 90, np.array([3, 1], "float32")
    tiled = ab.numpy(masked, tiles=(16, 16), halo=3, sliced="mask")
    np.testing.assert_array_equal(tiled(data, mask, by), masked(data, mask, by))
    np.testing.assert_array_equal(tiled(data, by=by, mask=mask), masked(data, mask, by))
    with pytest.raises(ValueError, match=r"\[50, 37\] and \[50, 36\]"):
        tiled(data, mask[:, 1:], by)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_gets_the_dtype_of_the_image_once(workers):
    calls = []

    def half(tile):
        calls.append(None)
        return tile / 2

    tiled = ab.numpy(half, tiles=(16, 16), workers=workers)
    data = image(dtype="uint16")
    with pytest.warns(ab.FractionsLostWarning) as warned:
        result = tiled(data)
    assert len(warned) == 1 and f"{int((data % 2).sum())} values" in str(warned[0].message)
    assert result.dtype == np.uint16 and len(calls) == 12
    np.testing.assert_array_equal(result, np.rint(data / 2))
    stretched = ab.numpy(half, tiles=(16, 16), workers=workers, scaling="stretch")
    whole = ab.numpy(half, scaling="stretch")
    np.testing.assert_array_equal(stretched(data), whole(data))


def test_tuples_are_put_together_element_by_element():
    def both(tile):
        return tile > 90, [tile * 2, tile.sum()], tile.max()

    data = image()
    each = ("concatenate", ("concatenate", "sum"), "max")
    mask, (double, total), top = ab.numpy(both, tiles=(16, 16), halo=0, join=each)(data)
    np.testing.assert_array_equal(mask, data > 90)
    np.testing.assert_array_equal(double, data * 2)
    assert (total, top) == (data.sum(), data.max())
    listed = ab.numpy(lambda tile: tile.sum(), tiles=(25, 37), join=list)(data)
    assert listed == [data[:25].sum(), data[25:].sum()]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda tile: tile.sum(), "the result of a tile is of type float32"),
        (lambda tile: (tile, 3), "the result of a tile is of type int"),
        (lambda tile: tile[::2], "a tile along axis 0 is 20 and that of its result is 10"),
        (lambda tile: tile[0], "a tile along axis 1 is 20 and that of its result is none"),
        (lambda tile: None, "returned None for each tile"),
        (lambda tile: tile if tile.shape == (20, 20) else None, "is of type NoneType"),
        (lambda tile: None if tile.shape == (20, 20) else tile, "another framework"),
        (lambda tile: tile.astype("f4" if tile.shape[1] > 20 else "f8"), "another framework"),
    ],
)
def test_a_result_that_has_no_place_is_an_error(function, message):
    with pytest.raises(ValueError, match=message):
        ab.numpy(function, tiles=(18, 18), halo=2)(image())


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_writing_to_a_tile_with_a_halo_changes_no_other_tile(name):
    def add(tile):
        tile += 1
        return tile

    data = image()
    array = bridges.make(name, data)
    tiled = getattr(decorators, name)(add, tiles=(16, 16), halo=4, output_type="numpy")
    np.testing.assert_array_equal(tiled(array), data + 1)
    np.testing.assert_array_equal(np.asarray(array), data)


def test_tiles_without_a_halo_can_be_written_to():
    def clear(tile):
        tile[...] = 0

    data = image()
    assert ab.numpy(clear, tiles=(16, 16))(data) is None
    assert not data.any()


def test_one_buffer_for_all_results_is_copied_in_time():
    buffer = np.empty((10, 37), "float32")
    data = image()
    tiled = ab.numpy(lambda tile: np.add(tile, 1, out=buffer), tiles=(10, 37))
    np.testing.assert_array_equal(tiled(data), data + 1)


def test_workers_call_at_the_same_time_and_in_the_context_of_the_call():
    together = threading.Barrier(3, timeout=60)
    threads = set()

    def double(tile):
        threads.add(threading.current_thread())
        together.wait()
        return tile * 2.0

    data = image(30, 10)
    before = threading.active_count()
    tiled = ab.numpy(double, tiles=(10, 10), workers=3)
    with ab.trace() as records:
        np.testing.assert_array_equal(tiled(data), data * 2)
    assert len(threads) == 3 and threading.main_thread() not in threads
    assert threading.active_count() == before
    assert [record.how for record in records] == ["concatenate"]
    torched = ab.torch(lambda tile: tile * 2, tiles=(10, 10), workers=3)
    with ab.trace() as records:
        torched(data)
    assert len([record for record in records if record.target == "torch"]) >= 3


def test_what_a_thread_traces_or_records_is_worked_on_in_that_thread(jax, tf, jnp):
    def square(tile):
        return tile * tile

    traced = ab.jax(square, tiles=(1, 1), workers=2)
    twos = jnp.full((2, 2), 2.0)
    np.testing.assert_array_equal(jax.jit(traced)(twos), 4)
    np.testing.assert_array_equal(jax.grad(lambda x: traced(x).sum())(twos), 4)

    recorded = ab.tensorflow(square, tiles=(1, 1), workers=2)
    x = tf.fill((2, 2), 2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = recorded(x)
    np.testing.assert_array_equal(tape.gradient(result, x), 4)
    np.testing.assert_array_equal(tf.function(recorded)(x), 4)
    # A tape may record the function's own variables as well.
    weight = tf.Variable(3.0)
    weighted = ab.tensorflow(lambda tile: tile * weight, tiles=(1, 1), workers=2)
    with tf.GradientTape() as tape:
        result = weighted(x)
    assert tape.gradient(result, weight) == 8


def test_threads_work_on_what_nobody_records(tf):
    threads = set()

    def square(tile):
        threads.add(threading.current_thread())
        return tile * tile

    squared = ab.tensorflow(square, tiles=(1, 1), workers=2)
    np.testing.assert_array_equal(squared(tf.fill((4, 4), 2.0)), 4)
    assert threads and threading.current_thread() not in threads


@pytest.mark.parametrize("workers", [1, 2])
def test_tiles_take_part_in_transformations_of_captured_arrays(torch, jax, tf, jnp, workers):
    def tiled(declare, image):
        function = lambda w: declare(lambda tile: tile * w, tiles=(2, 2), workers=workers)(image)  # noqa: E731
        return function

    x = torch.rand(4, 4)
    weighted = tiled(ab.torch, x)
    gradient = torch.func.grad(lambda w: weighted(w).sum())(torch.tensor(2.0))
    assert torch.allclose(gradient, x.sum())
    square = ab.torch(lambda tile: tile * tile, tiles=(2, 2), workers=workers)
    assert torch.equal(torch.func.grad(lambda x: square(x).sum())(x), 2 * x)
    both = torch.vmap(weighted)(torch.tensor([1.0, 2.0]))
    assert torch.equal(both, torch.stack([x, 2 * x]))

    weighted = tiled(ab.jax, jnp.ones((4, 4)))
    assert jax.grad(lambda w: weighted(w).sum())(2.0) == 16
    assert (jax.jit(weighted)(2.0) == 2).all()

    weighted = tiled(ab.tensorflow, tf.ones((4, 4)))
    assert (tf.function(weighted)(tf.constant(2.0)).numpy() == 2).all()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_of_one_tile_ends_the_call(workers, error):
    calls = []

    def fails(tile):
        calls.append(None)
        if len(calls) == 4:
            raise error("the fourth")
        return tile

    before = threading.active_count()
    with pytest.raises(error, match="the fourth"):
        ab.numpy(fails, tiles=(1, 1), workers=workers)(image())
    assert threading.active_count() == before and len(calls) < 50


def test_an_interrupt_ends_the_tiles_of_a_function_without_python_frames(torch):
    # The function sends the signal that it gets as a tile. There is no signal -1.
    data = torch.tensor([[int(signal.SIGINT)], [-1]])
    with pytest.raises(KeyboardInterrupt):
        ab.torch(_thread.interrupt_main, tiles=(1, 1))(data)


def test_each_tile_has_a_ladder_of_its_own():
    lengths = []

    def needs_little(tile):
        if len(tile) > 8:
            raise MemoryError
        lengths.append(len(tile))
        return tile + 1

    data = image()
    tiled = ab.numpy(needs_little, tiles=(16, 37), split_axis=0, on_oom="split")
    np.testing.assert_array_equal(tiled(data), data + 1)
    assert sum(lengths) == 50 and max(lengths) <= 8


def test_dtypes_beyond_numpy_have_tiles():
    data = image().astype(ml_dtypes.bfloat16)
    tiled = ab.numpy(lambda tile: tile[...], tiles=(16, 16), halo=1)
    np.testing.assert_array_equal(tiled(data), data)


def test_tiles_are_of_an_array_with_enough_axes_and_for_functions_that_return():
    def generator(tile):
        yield tile

    with pytest.raises(TypeError, match="tiles is for functions that return their result"):
        ab.numpy(generator, tiles=(5,))
    with pytest.raises(ValueError, match="tiles are for the last 3 axes, and the array has 2"):
        ab.numpy(largest, tiles=(5, 5, 5))(image())
    with pytest.raises(ValueError, match="tiles needs an array"):
        ab.numpy(largest, tiles=(5, 5))(3)


def test_a_function_with_tiles_can_be_pickled():
    tiled = ab.numpy(largest, tiles=(16, None), halo=(2, 0), workers=2)
    copy = cloudpickle.loads(cloudpickle.dumps(tiled))
    np.testing.assert_array_equal(copy(image()), tiled(image()))
    decorator = pickle.loads(pickle.dumps(ab.numpy(tiles=(16, 16), halo=2)))
    np.testing.assert_array_equal(decorator(largest)(image()), largest(image()))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no peak of a part of a run")
def test_the_results_of_tiles_are_not_kept():
    peak = bridges.peak_of("""
        image = np.full((4096, 4096), 1000, "uint16")
        function = lambda image: np.sqrt(image.astype("float64"))
        call = ab.numpy(function, scaling="clamp", tiles=(512, 512), halo=16)
        call(image[:600, :600])
    """)
    assert peak < 1.3


# Tiles of one shape.


@given(
    shape=st.lists(st.integers(1, 12), min_size=2, max_size=2),
    lengths=st.lists(st.none() | st.integers(1, 9), min_size=1, max_size=2).filter(any),
    halo=st.integers(0, 6),
    mode=st.sampled_from(["reflect", "edge", "constant"]),
)
@settings(max_examples=100, deadline=None)
def test_padded_tiles_have_one_shape_and_are_cut_to_their_places(shape, lengths, halo, mode):
    data, shapes = image(*shape) + 1, set()

    def check(tile):
        shapes.add(tile.shape)
        return tile * 2

    tiled = ab.numpy(check, tiles=tuple(lengths), halo=halo, pad=mode)
    np.testing.assert_array_equal(tiled(data), data * 2)
    wanted = list(shape)
    for axis, length in enumerate(lengths, len(shape) - len(lengths)):
        if length is not None:
            wanted[axis] = length + 2 * halo
    assert shapes == {tuple(wanted)}


@pytest.mark.parametrize("mode", ("reflect", "edge", "constant"))
def test_a_padded_tile_is_what_numpy_pads(mode):
    data, seen = image(6, 7), []
    see = ab.numpy(lambda tile: seen.append(tile) or tile, tiles=(4, 4), halo=1, pad=mode)
    see(data)
    # Each is padded by itself: it reads what it has of the image.
    parts = (data[:5, :5], data[:5, 3:], data[3:, :5], data[3:, 3:])
    widths = (((1, 0), (1, 0)), ((1, 0), (0, 2)), ((0, 3), (1, 0)), ((0, 3), (0, 2)))
    for tile, part, width in zip(seen, parts, widths, strict=True):
        np.testing.assert_array_equal(tile, np.pad(part, width, mode))


def test_a_compiled_function_is_compiled_once_for_padded_tiles(jax):
    compiled = []
    plus_one = jax.jit(lambda tile: compiled.append(tile.shape) or tile + 1)
    for shape in ((100, 90), (33, 64)):
        data = image(*shape)
        tiled = ab.jax(plus_one, tiles=(32, 32), halo=3, pad="reflect", output_type="numpy")
        np.testing.assert_array_equal(tiled(data), data + 1)
    assert compiled == [(38, 38)]


# Writes.


@pytest.mark.parametrize("options", ({"halo": 1}, {"pad": "edge"}))
def test_writes_to_tiles_that_are_copies_are_refused(options):
    def fill(tile):
        tile[...] = 7

    data = image(8, 8)
    refused = ab.numpy(fill, tiles=(4, 4), writes="tile", **options)
    with pytest.raises(ValueError, match=r"fill\(\): argument 'tile': writes=.*would be lost"):
        refused(data)
    assert (data != 7).any()
    assert ab.numpy(fill, tiles=(4, 4), writes="tile")(data) is None
    assert (data == 7).all()


def test_writes_to_an_array_that_is_not_cut_reach_it_also_with_a_halo():
    def count(tile, counts):
        counts[...] += 1
        return tile

    data, counts = image(8, 8), np.zeros(3)
    tiled = ab.numpy(count, tiles=(4, 4), halo=1, writes="counts")
    np.testing.assert_array_equal(tiled(data, counts), data)
    assert (counts == 4).all()


def test_a_bar_of_tiles_shows_bytes():
    texts = []

    class Bar:
        def __init__(self, desc, total, unit):
            assert (total, unit) == (4, "tile")

        def set_postfix_str(self, text, refresh=True):
            texts.append(text)

        def update(self, n):
            pass

        def close(self):
            pass

    with ab.progress(Bar):
        ab.numpy(lambda tile: tile, tiles=(100, 100))(np.zeros((200, 150)))
    assert [text.split(",")[0] for text in texts] == [
        "80.0 kB/240.0 kB", "120.0 kB/240.0 kB", "200.0 kB/240.0 kB", "240.0 kB/240.0 kB"
    ]  # fmt: skip
    assert texts[-1].endswith("/s, 0 s left")
