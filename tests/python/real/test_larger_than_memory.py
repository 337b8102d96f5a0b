"""Arrays in files, which are read and written part by part."""

import collections
import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest
from scipy import ndimage
from watched import Watched

IMAGE = np.random.default_rng(3).integers(0, 60000, (300, 410), dtype="uint16")


def smooth(image):
    return ndimage.gaussian_filter(image, 2, truncate=4)


WHOLE = smooth(IMAGE)
TILES = {"tiles": "chunks", "halo": 8}


@pytest.fixture
def stores(tmp_path):
    zarr = pytest.importorskip("zarr", minversion="3")

    def make(name, shape=IMAGE.shape, dtype="uint16", chunks=(32, 32), shards=(64, 128)):
        return zarr.create_array(
            tmp_path / f"{name}.zarr", shape=shape, chunks=chunks, shards=shards, dtype=dtype
        )

    return make


@pytest.fixture
def file(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "images.h5", "w") as file:
        yield file


@pytest.mark.parametrize("workers", (1, 3))
def test_tiles_follow_the_shards_of_a_zarr_array(stores, workers):
    source, target = stores("source"), stores("target")
    source[:] = IMAGE
    read, out = Watched(source), Watched(target)
    assert ab.numpy(smooth, **TILES, workers=workers)(read, out=out) is out
    assert np.array_equal(target[:], WHOLE)
    # Every shard is written once, as a whole, and one thread does it.
    shards = {(y, x) for y in range(0, 300, 64) for x in range(0, 410, 128)}
    assert collections.Counter((y.start, x.start) for y, x in out.written) == dict.fromkeys(
        shards, 1
    )
    assert read.threads == out.threads == {threading.get_ident()}
    # Every chunk is decoded once, and no more of them at a time than a tile has.
    decoded = [
        (y, x)
        for rows, columns in read.read
        for y in range(rows.start, rows.stop, 32)
        for x in range(columns.start, columns.stop, 32)
    ]
    assert sorted(decoded) == [(y, x) for y in range(0, 300, 32) for x in range(0, 410, 32)]
    assert max((y.stop - y.start, x.stop - x.start) for y, x in read.read) == (96, 160)


@pytest.mark.parametrize("framework", ("numpy", "torch", "jax", "tensorflow"))
def test_a_data_set_of_hdf5_goes_through_each_framework(file, framework):
    source = file.create_dataset("source", data=IMAGE.astype("float32"), chunks=(50, 60))
    target = file.create_dataset("target", IMAGE.shape, "uint16", chunks=(64, 64))
    declared = getattr(ab, framework)(lambda tile: tile / 2, tiles=(100, 128), workers=2)
    assert declared(source, out=target) is target
    assert np.array_equal(target[:], np.rint(IMAGE.astype("float32") / 2).astype("uint16"))


def test_other_results_are_joined_beside_the_array_that_is_written(file):
    source = file.create_dataset("source", data=IMAGE, chunks=(50, 60))
    target = file.create_dataset("target", IMAGE.shape, "float32")
    declared = ab.numpy(
        lambda tile: (tile / 2, tile + 0.5, np.asarray(tile.sum(dtype="uint64"))),
        tiles=(99, 99),
        join=("concatenate", "concatenate", "sum"),
    )
    written, more, total = declared(source, out=target)
    assert written is target and np.array_equal(target[:], IMAGE / 2)
    # The dtype policy is for the first array.
    assert np.array_equal(more, IMAGE + 0.5) and more.dtype == np.float64
    assert total == IMAGE.sum() and total.dtype == np.uint64


def test_process_slices_reads_and_writes_them_one_by_one(stores):
    stack = np.random.default_rng(0).integers(0, 99, (2, 3, 4, 20, 30), dtype="uint16")
    shapes = {"shape": stack.shape, "chunks": (1, 1, 2, 20, 30), "shards": None}
    source, target = stores("source", **shapes), stores("target", **shapes)
    source[:] = stack
    read, out = Watched(source), Watched(target)
    assert ab.process_slices(read, lambda image: image + 3, out=out) is out
    assert np.array_equal(target[:], stack + 3) and len(read.read) == len(out.written) == 24
    assert np.array_equal(ab.process_slices(source, lambda image: image + 4), stack + 4)


def test_pages_of_an_ome_tiff_are_read_as_they_are_wanted(tmp_path):
    tifffile, zarr = pytest.importorskip("tifffile"), pytest.importorskip("zarr")
    stack = np.random.default_rng(0).integers(0, 999, (3, 2, 64, 80), dtype="uint16")
    path = tmp_path / "stack.ome.tif"
    tifffile.imwrite(path, stack, metadata={"axes": "ZCYX"}, tile=(32, 32))
    store = tifffile.imread(path, aszarr=True)
    image = zarr.open_array(store, mode="r")
    spied = Watched(image)
    found = ab.torch(lambda part: part.float(), slice_by_slice=True, dtype_conversion="native")(
        spied
    )
    assert np.array_equal(found, stack.astype("float32")) and len(spied.read) == 6
    tiled = ab.numpy(lambda part: part.max(), tiles="chunks", join="max")
    assert tiled(image) == stack.max()
    store.close()


def test_a_variable_of_a_netcdf_file_is_read_through_xarray(tmp_path):
    xarray = pytest.importorskip("xarray")
    data = xarray.DataArray(IMAGE.astype("float32"), dims=("y", "x"), name="image")
    data.to_netcdf(tmp_path / "image.nc", engine="scipy")
    with xarray.open_dataset(tmp_path / "image.nc", engine="scipy") as dataset:
        spied = Watched(dataset["image"])
        result = ab.numpy(lambda tile: tile * 2, tiles=(100, 100))(spied)
        assert np.array_equal(result, IMAGE.astype("float32") * 2) and len(spied.read) == 15
        assert ab.numpy(lambda tile: tile * 2, tiles=(100, 100))(dataset["image"]).shape == (
            300,
            410,
        )


def test_a_memory_map_is_written_to(tmp_path):
    out = np.memmap(tmp_path / "out", "float32", "w+", shape=IMAGE.shape)
    assert ab.numpy(lambda tile: tile / 4, tiles=(64, None))(IMAGE, out=out) is out
    assert np.array_equal(np.fromfile(tmp_path / "out", "float32").reshape(IMAGE.shape), IMAGE / 4)


def test_what_does_not_fit_the_dtype_of_out_is_rounded_and_counted(file):
    target = file.create_dataset("target", (4, 4), "uint8")
    declared = ab.numpy(lambda tile: tile * 1.0, tiles=(4, 4))
    with pytest.warns(ab.ClippedValuesWarning, match="2 values"):
        declared(np.array([[0.4, 1.6, 300, -1]] + [[0.0] * 4] * 3), out=target)
    assert target[0].tolist() == [0, 2, 255, 0]


def test_a_tile_that_fails_is_named_by_its_place(file):
    source = file.create_dataset("source", data=np.repeat(np.arange(9), 100).reshape(30, 30))

    def fail(tile):
        if 5 in tile:
            raise KeyError("no")
        return tile

    for workers in (1, 2):
        with pytest.raises(KeyError) as caught:
            ab.numpy(fail, tiles=(10, 30), workers=workers)(source)
        assert any(
            "fail(): argument 'tile': in the tile [10:20, 0:30]" in n
            for n in caught.value.__notes__
        )


def test_a_part_that_cannot_be_read_is_named_by_its_place():
    class Broken:
        shape, dtype = (4, 6), np.dtype("uint8")

        def __getitem__(self, index):
            if index[1].start:
                raise OSError("disk")
            return np.zeros(self.shape, self.dtype)[index]

    with pytest.raises(OSError, match="disk") as caught:
        ab.numpy(lambda tile: tile, tiles=(4, 3))(Broken())
    assert "in the tile [0:4, 3:6]" in caught.value.__notes__[0]


def test_what_an_object_returns_is_not_written_to():
    """An object may return views of what it holds."""

    class Views:
        def __init__(self, array):
            self.array, self.shape, self.dtype = array, array.shape, array.dtype

        def __getitem__(self, index):
            return self.array[index]

    def clear(tile):
        seen.append(int(tile.sum()))
        tile[...] = 0
        return tile

    seen, data = [], np.ones((8, 8), "int32")
    ab.numpy(clear, tiles=(4, 8), halo=2)(Views(data))
    assert (data == 1).all() and seen == [48, 48]


@pytest.mark.parametrize("make", (
    lambda file: file.create_dataset("other", (3, 3), "uint16"),
    lambda file: file["source"],
    lambda file: [1],
    lambda file: np.broadcast_to(np.uint16(0), IMAGE.shape),
))  # fmt: skip
def test_what_cannot_be_written_to_is_an_error_with_the_function(file, make):
    source = file.create_dataset("source", data=IMAGE, chunks=(50, 60))
    out = make(file)
    with pytest.raises((TypeError, ValueError), match=r"smooth\(\): out "):
        ab.numpy(smooth, **TILES)(source, out=out)
    assert np.array_equal(source[:], IMAGE)


@pytest.mark.parametrize("framework", ("jax", "tensorflow"))
def test_arrays_that_never_change_are_no_out(framework):
    out = bridges.make(framework, IMAGE)
    with pytest.raises(TypeError, match=f"array of {framework}, which never changes"):
        ab.numpy(smooth, tiles=(100, 100))(IMAGE, out=out)


def test_an_out_of_torch_is_written_to(torch):
    out = torch.zeros(IMAGE.shape, dtype=torch.float32)
    assert ab.numpy(smooth, tiles=(100, 100), halo=8)(IMAGE, out=out) is out
    assert np.array_equal(out.numpy(), WHOLE)


def test_out_is_refused_where_it_would_be_ignored(file):
    target = file.create_dataset("target", IMAGE.shape, "uint16")
    with pytest.raises(ValueError, match="no array that could be written to out"):
        ab.numpy(lambda tile: int(tile.sum()), tiles=(99, 99), join="sum")(IMAGE, out=target)
    with pytest.raises(ValueError, match="no array that could be written to out"):
        ab.numpy(lambda tile: None, slice_by_slice=True)(IMAGE[None], out=target)
    with pytest.raises(TypeError, match="only one of out"):
        ab.numpy(smooth, tiles=(99, 99))(IMAGE, out=target, dtype_conversion="uint8")
    with pytest.raises(ValueError, match="stretch.*needs all results"):
        ab.numpy(smooth, tiles=(99, 99), scaling="stretch")(IMAGE, out=target)
    # Without tiles or slices it is the function's own keyword.
    assert ab.numpy(lambda image, **kwargs: kwargs["out"])(IMAGE, out=5) == 5
    own = ab.numpy(lambda tile, out: tile + out, tiles=(99, 99))
    assert np.array_equal(own(IMAGE, out=np.uint16(1)), IMAGE + 1)


def test_chunks_are_wanted_where_there_are_none(file):
    source = file.create_dataset("source", data=IMAGE)
    with pytest.raises(
        ValueError, match="neither has chunks for 2 axes; give the lengths of a tile"
    ):
        ab.numpy(smooth, **TILES)(source)


def test_dask_arrays_are_not_read_like_files():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ab.UnsupportedArrayError, match="computation"):
        ab.numpy(smooth, tiles=(9, 9))(dask.from_array(IMAGE))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_sparse_and_labelled_objects_are_not_read_like_files():
    scipy = pytest.importorskip("scipy.sparse")
    sparse = scipy.csr_array(np.eye(5))
    declared = ab.numpy(lambda tile, weights: tile * weights.nnz, tiles=(3, 3))
    assert np.array_equal(declared(np.ones((5, 5)), sparse), np.full((5, 5), 5.0))
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(np.arange(6.0), index=list("abcdef"))
    assert np.array_equal(ab.numpy(lambda tile: tile + 1, tiles=(4,))(series), np.arange(1.0, 7.0))


def test_objects_without_a_protocol_of_arrays_reach_the_function_unless_they_are_cut():
    class Table:
        shape, dtype = (5,), np.dtype("float64")

        def __getitem__(self, index):
            return np.arange(5.0)[index]

    table = Table()
    declared = ab.numpy(lambda tile, table: tile * (type(table) is Table), tiles=(3, 3))
    assert np.array_equal(declared(np.ones((5, 5)), table), np.ones((5, 5)))
    assert np.array_equal(ab.numpy(lambda tile: tile + 1, tiles=(3,))(table), np.arange(1.0, 6.0))


LIMITED = """
import resource, sys
import arraybridge as ab, numpy as np
from scipy import ndimage

kind, folder = sys.argv[1:]
MIB = 1 << 20
SIDE = 6144  # 72 MiB of uint16

def make(name, side):
    shape = (side, side)
    if kind == "zarr":
        import zarr
        return zarr.create_array(
            f"{folder}/{name}.zarr", shape=shape, chunks=(256, 512), shards=(512, 512),
            dtype="uint16", compressors=None,
        )
    import h5py
    file = h5py.File(f"{folder}/{name}.h5", "w")
    return file.create_dataset("image", shape, "uint16", chunks=(512, 512))

def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

smooth = ab.numpy(lambda x: ndimage.uniform_filter(x, 5), tiles="chunks", halo=2, workers=2)
small = make("small", 1024), make("small_out", 1024)
smooth(small[0], out=small[1])  # starts all threads
source, out = make("source", SIDE), make("out", SIDE)
for row in range(0, SIDE, 512):
    rows = np.arange(row, row + 512, dtype="uint16")[:, None]
    source[row : row + 512] = np.broadcast_to(rows, (512, SIDE))
limit = status("VmData") + 48 * MIB
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    source[:]
except MemoryError:
    pass
else:
    raise SystemExit("the file fits into the limit")
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # VmHWM begins again
smooth(source, out=out)
peak = status("VmHWM") - before
for row in (0, 511, 512, 4096, SIDE - 1):
    found = out[row].astype(int)
    assert (abs(found - row) <= 1).all(), (row, found)
print(peak)
"""


@pytest.mark.parametrize("kind", ("zarr", "h5py"))
def test_a_file_larger_than_the_limit_of_the_process_is_processed(tmp_path, kind):
    """Two workers have a tile with its halo and a result each: 2 MiB. The rest is the library's."""
    pytest.importorskip(kind)
    done = bridges.survives(LIMITED, kind, str(tmp_path))
    assert int(done) < 24 << 20


@pytest.mark.parametrize("how", [{"tiles": (100, 100)}, {"slice_by_slice": True}])
def test_a_file_whose_result_would_be_black_is_refused_as_an_array_is(how):
    image = IMAGE if "tiles" in how else IMAGE.reshape(10, 30, 410)
    declared = ab.numpy(lambda part: part / 65535, **how)
    for source in (image, Watched(image)):
        with pytest.raises(ab.ResultCollapsedError):
            declared(source)


def test_out_that_is_read_again_is_refused():
    image, mask = IMAGE.astype("float32"), np.ones(IMAGE.shape, "float32")
    tiles = {"tiles": (64, 64)}
    whole = ab.numpy(lambda part, mask: part + mask.sum(), **tiles)
    cut = ab.numpy(lambda part, mask: part + mask, sliced="mask", **tiles)
    beyond = ab.numpy(lambda part, mask: part + mask, sliced="mask", halo=1, **tiles)
    for declared in (whole, beyond):
        with pytest.raises(ValueError, match="read again"):
            declared(image, mask, out=mask)
    with pytest.raises(ValueError, match="read again"):
        beyond(image, mask, out=image[:])
    expected = image + mask
    assert np.array_equal(cut(image, mask, out=mask), expected)


def test_out_that_is_memory_of_a_torch_lead_is_refused(torch):
    image = IMAGE.astype("float32")
    beyond = ab.numpy(lambda part: part * 2, tiles=(64, 64), halo=1)
    for lead, out in ((torch.from_numpy(image), image), (image, torch.from_numpy(image))):
        with pytest.raises(ValueError, match="read again"):
            beyond(lead, out=out)


@pytest.mark.parametrize("how", [{"tiles": (100, 100)}, {"slice_by_slice": True}])
def test_none_beside_a_written_array_stays_none(how):
    image = IMAGE if "tiles" in how else IMAGE.reshape(10, 30, 410)
    out = np.empty(image.shape, image.dtype)
    first, second = ab.numpy(lambda part: (None, part + 1), **how)(image, out=out)
    assert np.array_equal(out, image + 1)
    assert second is out and first is not out


def test_lists_of_results_are_settled():
    out = np.empty_like(IMAGE)
    result = ab.numpy(lambda part: [part + 1, part], tiles=(100, 100))(IMAGE, out=out)
    assert result[0] is out and np.array_equal(result[1], IMAGE)


def test_a_tuple_of_halos_is_for_the_last_axes_of_chunks(stores):
    stack = stores("stack", (4, 64, 64), chunks=(1, 32, 32), shards=(1, 32, 32))
    stack[:] = 7
    shapes = set()
    declared = ab.numpy(lambda part: shapes.add(part.shape) or part, tiles="chunks", halo=(2,))
    assert (declared(stack) == 7).all()
    assert shapes == {(1, 32, 34)}


def test_chunks_are_not_those_of_a_slice(stores):
    stack = stores("stack", (4, 64, 64), chunks=(1, 32, 32), shards=(1, 32, 32))
    with pytest.raises(ValueError, match="chunks of whole arrays"):
        ab.numpy(lambda part: part, tiles="chunks", slice_by_slice=True)(stack)


@pytest.mark.parametrize("mode", ["reflect", "edge", "constant"])
def test_padding_keeps_the_gradient_and_the_trace(torch, jax, tf, mode):
    x = torch.arange(50.0).reshape(5, 10).requires_grad_()
    declared = ab.torch(lambda part: part * 2, tiles=(4, 4), pad=mode)
    declared(x).sum().backward()
    assert (x.grad == 2).all()
    traced = jax.jit(ab.jax(lambda part: part * 2, tiles=(4, 4), pad=mode))
    image = np.arange(50, dtype="float32").reshape(5, 10)
    assert np.array_equal(traced(jax.numpy.asarray(image)), image * 2)
    declared = ab.tensorflow(lambda part: part * 2, tiles=(4, 4), pad=mode)
    variable = tf.Variable(image)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.function(declared)(variable.read_value()))
    assert (tape.gradient(total, variable).numpy() == 2).all()


@pytest.mark.parametrize("mode", ["reflect", "edge", "constant"])
def test_padding_keeps_the_mask(mode):
    image = np.ma.masked_equal(np.arange(50, dtype="float32").reshape(5, 10), 7)
    declared = ab.numpy(lambda part: part.filled(-1), tiles=(4, 4), halo=1, pad=mode)
    assert np.array_equal(declared(image), image.filled(-1))
    assert declared(image[:, :0]).shape == (5, 0)


@pytest.fixture
def tensors(tmp_path):
    """A function that makes arrays of tensorstore in files."""
    tensorstore = pytest.importorskip("tensorstore")

    def make(name, shape=IMAGE.shape, dtype="uint16", chunks=(32, 32), inner=None):
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if inner is not None:
            sharding = {"chunk_shape": list(inner), "codecs": codecs}
            codecs = [{"name": "sharding_indexed", "configuration": sharding}]
        grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
        metadata = {
            "shape": list(shape), "data_type": dtype, "chunk_grid": grid, "codecs": codecs
        }  # fmt: skip
        store = {"driver": "file", "path": str(tmp_path / name)}
        spec = {"driver": "zarr3", "kvstore": store, "metadata": metadata}
        return tensorstore.open(spec, create=True).result()

    return make


@pytest.mark.parametrize("workers", (1, 3))
@pytest.mark.parametrize("inner", (None, (16, 32)))
def test_arrays_of_tensorstore_are_read_and_written(tensors, workers, inner):
    source, target = tensors("source", inner=inner), tensors("target", chunks=(64, 128))
    source[...] = IMAGE
    declared = ab.torch(lambda tile: tile.int() + 1, **TILES, workers=workers)
    shapes = set()
    assert declared(source, out=target) is target
    assert np.array_equal(target.read().result(), IMAGE + 1)
    seen = ab.numpy(lambda tile: shapes.add(tile.shape) or tile, **TILES)
    assert np.array_equal(seen(source, out=target), IMAGE)
    # The tiles are the chunks of the target; those of the source, if the target has none.
    assert max(shapes) == (64 + 16, 128 + 16)
    shapes.clear()
    assert np.array_equal(seen(source), IMAGE) and max(shapes) == (32 + 16, 32 + 16)
    assert np.array_equal(ab.convert(source, "torch").numpy(), IMAGE)


def test_a_part_of_a_tensorstore_is_read_from_its_own_beginning(tensors):
    source, target = tensors("source"), tensors("target")
    source[...] = IMAGE
    part, there = source[50:150, 60:90], target.translate_by[-1000, 7][-990:-890, 20:50]
    add = ab.numpy(lambda tile: tile + 1, tiles=(40, 40), halo=3)
    assert np.array_equal(add(part), IMAGE[50:150, 60:90] + 1)
    assert add(part, out=there) is there
    expected = np.zeros_like(IMAGE)
    expected[10:110, 13:43] = IMAGE[50:150, 60:90] + 1
    assert np.array_equal(target.read().result(), expected)


def test_two_parts_of_one_tensorstore_are_one_array_in_a_file(tensors):
    source, other = tensors("source"), tensors("other")
    source[...] = IMAGE
    double = ab.numpy(lambda tile: tile * 2, tiles=(64, 64), halo=1)
    for out in (source, source.translate_by[5, 5], source[0:300, 0:410]):
        with pytest.raises(ValueError, match="read again"):
            double(source, out=out)
    assert np.array_equal(source.read().result(), IMAGE)
    assert double(source, out=other) is other


def test_slices_of_tensorstore_are_stacked_and_taken_apart(tensors):
    stack = np.random.default_rng(0).integers(0, 99, (3, 20, 30), dtype="uint16")
    source = tensors("source", stack.shape, chunks=(2, 8, 8))
    target = tensors("target", stack.shape, "float32", chunks=(2, 8, 8))
    source[...] = stack
    pages = [source[index] for index in (2, 0, 1)]
    assert np.array_equal(ab.stack_slices(pages, "numpy"), stack[[2, 0, 1]])
    assert ab.stack_slices(pages, out=target) is target
    assert np.array_equal(target.read().result(), stack[[2, 0, 1]])
    for out in (source, source.translate_by[1, 1, 1]):
        with pytest.raises(ValueError, match="read again"):
            ab.stack_slices(pages, out=out)
    assert np.array_equal(ab.unstack_slices(source, "numpy"), stack)
    assert np.array_equal(ab.process_slices(source, lambda page: page * 2), stack * 2)


def test_a_tensorstore_of_bfloat16_keeps_its_dtype(tensors):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source = tensors("source", (20, 30), "bfloat16", chunks=(8, 8))
    source[...] = np.arange(600).reshape(20, 30).astype(ml_dtypes.bfloat16)
    result = ab.torch(lambda tile: tile * 2, tiles=(8, 8), dtype_conversion="native")(source)
    assert str(result.dtype) == "torch.bfloat16"
    assert np.array_equal(result.float().numpy(), np.asarray(source[...]).astype("float32") * 2)


def test_slices_are_written_to_a_file_as_a_generator_makes_them(file):
    target = file.create_dataset("target", (5, 20, 30), "uint8")
    events = []

    class Target:
        shape, dtype = target.shape, target.dtype

        def __setitem__(self, index, values):
            events.append("write")
            target[index] = values

    def pages():
        for index in range(5):
            events.append("make")
            yield np.full((20, 30), index, "float32")

    out = Target()
    assert ab.stack_slices(pages(), out=out) is out
    assert events == ["make", "write"] * 5
    assert np.array_equal(target[:, 0, 0], np.arange(5))


@pytest.mark.parametrize(("slices", "out", "text"), (
    ([], (0, 2, 3), "there are 0"),
    ([np.zeros((2, 3))] * 2, (3, 2, 3), "room for 3 slices, and there are 2"),
    (iter([np.zeros((2, 3))] * 2), (3, 2, 3), "room for 3 slices, and there are 2"),
    (iter([np.zeros((2, 3))] * 4), (3, 2, 3), "room for 3 slices, and there are 4"),
    ([np.zeros((2, 3)), np.zeros((2, 4))], (2, 2, 3), r"the shape \(2, 2, 3\), and the result"),
    ([np.zeros((2, 3)), np.zeros(3)], (2, 2, 3), "the slice at index 1 is not a 2D array"),
))  # fmt: skip
def test_slices_that_do_not_fit_out_are_an_error(slices, out, text):
    with pytest.raises(ValueError, match=text):
        ab.stack_slices(slices, out=np.zeros(out))


def test_out_of_slices_is_the_result():
    image = np.zeros((2, 3))
    for wrong in ({"memory_type": "numpy"}, {"target_type": "torch"}, {"gpu_id": 0}, {"device": 0}):
        with pytest.raises(TypeError, match="out is the result"):
            ab.stack_slices([image], out=image[None], **wrong)
        with pytest.raises(TypeError, match="out is the result"):
            ab.unstack_slices(image[None], out=[image], **wrong)
    with pytest.raises(ValueError, match="out has 1 arrays, and there are 2 slices"):
        ab.unstack_slices(np.zeros((2, 2, 3)), out=[image])
    with pytest.raises(ValueError, match="Array must be 3D"):
        ab.unstack_slices(image, out=[image])
    with pytest.raises(ValueError, match="read again"):
        ab.unstack_slices(image[None], out=[image])
    stack = np.zeros((2, 2, 3))
    with pytest.raises(ValueError, match="read again"):
        ab.stack_slices([stack[1], stack[0]], out=stack)


def test_files_that_are_no_slices_are_an_error_without_a_read(file):
    line = Watched(file.create_dataset("line", (9,), "uint8"))
    with pytest.raises(ValueError, match="index 1 is not a 2D array; its shape is"):
        ab.stack_slices([np.zeros((3, 3), "uint8"), line], "numpy")
    with pytest.raises(ValueError, match="Array must be 3D"):
        ab.unstack_slices(line, "numpy")
    assert not line.read
