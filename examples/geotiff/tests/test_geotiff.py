"""The reader gives what rasterio gives, and an error for what is no GeoTIFF."""

import multiprocessing
import pickle

import arraybridge
import geotiff
import numpy as np
import pytest
import rasterio
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.enums import Resampling
from rasterio.transform import Affine, from_origin
from rasterio.windows import Window

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float32", "float64")
TRANSFORM = from_origin(500_000, 4_600_000, 10, 20)
TILES = {"tiled": True, "blockxsize": 32, "blockysize": 16}
REFUSALS = (ValueError, OSError)

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


def write(path, data, transform=TRANSFORM, crs="EPSG:32633", **options):
    bands, height, width = data.shape
    options.setdefault("photometric", "minisblack")
    options.update(driver="GTiff", count=bands, height=height, width=width, dtype=data.dtype)
    with rasterio.open(path, "w", crs=crs, transform=transform, **options) as file:
        file.write(data)
    return path


def expected(path, **options):
    with rasterio.open(path) as file:
        return file.read(**options)


def values(path, **options):
    return np.asarray(geotiff.GeoTiff(path).read(**options))


def pixels(dtype, bands=3, height=70, width=50):
    values = np.random.default_rng(0).integers(0, 100, (bands, height, width))
    return values.astype(dtype)


def predictors(dtype, compress):
    if compress in ("none", "packbits"):
        return (1,)
    return (1, 2, 3) if dtype in FLOATS else (1, 2)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("bands", [1, 3, 5])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("compress", ["none", "deflate", "lzw", "zstd", "packbits"])
def test_pixels_are_rasterios(tmp_path, dtype, bands, interleave, tiled, compress):
    data = pixels(dtype, bands)
    for predictor in predictors(dtype, compress):
        for endianness in ("little", "big"):
            for big in ("no", "yes"):
                path = write(
                    tmp_path / "x.tif", data, interleave=interleave, compress=compress,
                    predictor=predictor, ENDIANNESS=endianness, BIGTIFF=big,
                    **(TILES if tiled else {}),
                )  # fmt: skip
                file = geotiff.GeoTiff(path)
                tensor = file.read()
                assert (file.shape, file.dtype) == (data.shape, dtype)
                assert (tensor.shape, tensor.dtype, tensor.device) == (data.shape, dtype, "host")
                assert np.array_equal(np.asarray(tensor), expected(path))


@pytest.mark.parametrize("bits", [1, 4, 7, 12])
def test_packed_bits_are_unpacked(tmp_path, bits):
    dtype = "uint8" if bits < 8 else "uint16"
    path = write(tmp_path / "x.tif", pixels(dtype) % 2**bits, nbits=bits)
    assert np.array_equal(values(path), expected(path))


@pytest.mark.parametrize("photometric", ["miniswhite", "minisblack"])
def test_pixels_are_as_they_are_stored(tmp_path, photometric):
    path = write(tmp_path / "x.tif", pixels("uint8", 1), photometric=photometric)
    assert np.array_equal(values(path), pixels("uint8", 1))


def test_jpeg_is_decoded_in_color(tmp_path):
    rows, columns = np.mgrid[:256, :256]
    data = np.stack([rows, columns, (rows + columns) // 2]).astype("uint8")
    path = write(tmp_path / "x.tif", data, compress="jpeg", photometric="ycbcr", tiled=True)
    difference = values(path).astype(int) - expected(path)
    assert abs(difference).max() <= 4  # decoders round differently


def read_shape(path):
    return values(path).shape


def test_a_forked_process_reads_what_its_parent_has_read(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8", 3, 256, 256), compress="jpeg", tiled=True)
    assert read_shape(path) == (3, 256, 256)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(read_shape, (path,)).get(timeout=60) == (3, 256, 256)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("tiled", [False, True])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_window_of_bands_is_rasterios(tmp_path_factory, interleave, tiled, data):
    path = tmp_path_factory.mktemp("window") / "x.tif"
    write(path, pixels("int16"), interleave=interleave, **(TILES if tiled else {}))
    bands = data.draw(st.lists(st.integers(1, 3), max_size=4))
    rows, columns = (sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in (70, 50))
    window = Window.from_slices(tuple(rows), tuple(columns))
    part = values(path, bands=bands, window=(rows, columns))
    assert part.shape == (len(bands), window.height, window.width)
    if part.size:
        assert np.array_equal(part, expected(path, indexes=bands, window=window))


def test_what_is_not_in_the_file_is_an_index_error(tmp_path):
    file = geotiff.GeoTiff(write(tmp_path / "x.tif", pixels("uint8")))
    for wrong in (
        {"bands": [0]},
        {"bands": [4]},
        {"window": ((0, 71), (0, 1))},
        {"window": ((2, 1), (0, 1))},
    ):
        with pytest.raises(IndexError):
            file.read(**wrong)
    with pytest.raises(IndexError, match="has 0"):
        geotiff.GeoTiff(tmp_path / "x.tif", overview=0)


def test_overviews_are_read_in_place_of_the_image(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"), **TILES)
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4], Resampling.average)
    assert geotiff.GeoTiff(path).overviews == [2, 4]
    for level in (0, 1):
        small = geotiff.GeoTiff(path, overview=level)
        with rasterio.open(path, overview_level=level) as file:
            assert np.array_equal(np.asarray(small.read()), file.read())
            np.testing.assert_allclose(small.transform, list(file.transform)[:6])
        assert small.epsg == 32633


def test_a_mask_is_no_overview(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"), **TILES)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as file:
        file.write_mask(np.full((70, 50), 255, "uint8"))
        file.build_overviews([2], Resampling.nearest)
    assert geotiff.GeoTiff(path).overviews == [2]


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("nodata", [None, 0, 7, -3])
def test_blocks_that_were_left_out_are_nodata(tmp_path, interleave, tiled, nodata):
    path = tmp_path / "x.tif"
    options = TILES if tiled else {"blockysize": 16}
    options = dict(
        options, driver="GTiff", dtype="int16", count=2, height=70, width=50, nodata=nodata
    )
    with rasterio.open(path, "w", SPARSE_OK=True, interleave=interleave, **options) as file:
        window = Window(32, 16, 18, 16)
        file.write(np.full((window.height, window.width), 5, "int16"), 2, window=window)
    assert np.array_equal(values(path), expected(path))
    window = ((10, 40), (20, 45))
    assert np.array_equal(values(path, window=window), expected(path, window=window))


@pytest.mark.parametrize("nodata", [-9999, 0.5, float("nan"), float("inf"), None])
def test_the_meaning_of_the_numbers_is_rasterios(tmp_path, nodata):
    path = write(tmp_path / "x.tif", pixels("float32", 2), nodata=nodata)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets, file.descriptions = (0.1, 2), (-5, 0), ("red <&>", None)
    with rasterio.open(path) as expected:
        file = geotiff.GeoTiff(path)
        np.testing.assert_equal(file.nodata, expected.nodata)
        assert tuple(file.scales) == expected.scales
        assert tuple(file.offsets) == expected.offsets
        assert tuple(file.descriptions) == expected.descriptions


@pytest.mark.parametrize(
    "crs", ["EPSG:32633", "EPSG:4326", "+proj=laea +lat_0=52 +lon_0=10 +datum=WGS84", None]
)
def test_the_coordinate_system_is_rasterios(tmp_path, crs):
    path = write(tmp_path / "x.tif", pixels("uint8"), crs=crs)
    with rasterio.open(path) as file:
        assert geotiff.GeoTiff(path).epsg == (file.crs and file.crs.to_epsg())
        assert geotiff.GeoTiff(path).transform == list(file.transform)[:6]


def test_a_point_is_the_centre_of_its_pixel(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    with rasterio.open(path, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
    with rasterio.open(path) as file:
        np.testing.assert_allclose(geotiff.GeoTiff(path).transform, list(file.transform)[:6])


def test_a_plain_tiff_has_no_place(tmp_path):
    file = geotiff.GeoTiff(write(tmp_path / "x.tif", pixels("uint8"), transform=None, crs=None))
    assert (file.transform, file.epsg, file.nodata) == (None, None, None)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "tensorflow"])
def test_pixels_come_in_any_framework(tmp_path, framework):
    data = pixels("uint16")
    array = geotiff.read(write(tmp_path / "x.tif", data), framework, bands=[3, 1])
    assert arraybridge.detect_memory_type(array) == framework
    assert np.array_equal(np.asarray(array), data[[2, 0]])


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_xarray_opens_a_file_with_coordinates(tmp_path, framework):
    path = write(tmp_path / "x.tif", pixels("float32"), nodata=-1)
    data = xarray.open_dataarray(path, engine="geotiff", framework=framework)
    assert data.dims == ("band", "y", "x")
    assert (data.x[0], data.x[1], data.y[0], data.y[1]) == (500_005, 500_015, 4_599_990, 4_599_970)
    assert (data.attrs["crs"], data.attrs["nodata"]) == ("EPSG:32633", -1)
    band = data.sel(band=2)
    assert arraybridge.detect_memory_type(band.data) == framework
    assert arraybridge.detect_memory_type(data.data) == framework
    assert np.array_equal(np.asarray(band.data), pixels("float32")[1])
    assert np.array_equal(np.asarray(data.data), pixels("float32"))


# xarray itself fails on an empty slice that runs backwards.
SLICES = st.slices(10).filter(lambda part: (part.step or 1) > 0 or range(10)[part])
INDICES = SLICES | st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=3)


@given(st.tuples(INDICES, INDICES, INDICES))
@settings(max_examples=100, deadline=None)
def test_xarray_indexes_as_numpy_does(tmp_path_factory, indices):
    path = tmp_path_factory.mktemp("lazy") / "x.tif"
    array = pixels("int32", 10, 10, 10)
    data = xarray.open_dataarray(write(path, array), engine="geotiff")
    lazy = data.isel(band=indices[0], y=indices[1], x=indices[2])
    loaded = xarray.DataArray(array, dims=data.dims, coords=data.coords)
    loaded = loaded.isel(band=indices[0], y=indices[1], x=indices[2])
    xarray.testing.assert_equal(lazy, loaded)


def test_xarray_reads_only_what_is_asked_for(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8", 1), **TILES)
    whole = xarray.open_dataarray(path, engine="geotiff")
    corner = whole.isel(y=slice(0, 16), x=slice(0, 32))
    damaged = path.read_bytes()[:-100]  # of the last tile
    path.write_bytes(damaged)
    assert np.array_equal(corner.values, pixels("uint8", 1)[:, :16, :32])
    with pytest.raises(ValueError):
        whole.load()


def test_xarray_refuses_arrays_that_it_cannot_hold(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    with pytest.raises(ValueError, match=r"geotiff\.read"):
        xarray.open_dataarray(path, engine="geotiff", framework="torch")


def test_an_open_file_can_be_sent_to_another_process(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    data = xarray.open_dataarray(path, engine="geotiff").isel(band=1)
    assert np.array_equal(pickle.loads(pickle.dumps(data)).values, pixels("uint8")[1])


def test_a_rotated_image_has_a_transform_and_no_coordinates(tmp_path):
    rotated = Affine.rotation(30) * Affine.scale(2, 3)
    path = write(tmp_path / "x.tif", pixels("uint8"), transform=rotated)
    np.testing.assert_allclose(geotiff.GeoTiff(path).transform, list(rotated)[:6])
    assert "x" not in xarray.open_dataarray(path, engine="geotiff").coords


def test_every_truncation_is_an_error(tmp_path):
    whole = write(tmp_path / "x.tif", pixels("uint16"), compress="deflate").read_bytes()
    cut = tmp_path / "cut.tif"
    for length in range(0, len(whole) - 1, max(1, len(whole) // 150)):
        cut.write_bytes(whole[:length])
        with pytest.raises(REFUSALS):
            values(cut)


@pytest.mark.parametrize("compress", ["none", "deflate", "lzw", "zstd", "packbits", "jpeg"])
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("big", ["no", "yes"])
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damage_is_an_error_or_other_pixels(tmp_path_factory, compress, tiled, big, data):
    folder = tmp_path_factory.mktemp("damage")
    whole = write(folder / "x.tif", pixels("uint8", 3, 40, 40), compress=compress, BIGTIFF=big,
                  nodata=3, interleave="band", **(TILES if tiled else {})).read_bytes()  # fmt: skip
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    # Most of what can go wrong is in the header and the directory, which come first.
    near = st.integers(0, min(len(whole), 400) - 1)
    places = st.lists(st.tuples(near | st.integers(0, len(whole) - 1), st.integers(0, 255)))
    for at, byte in data.draw(places):
        if at < len(damaged):
            damaged[at] = byte
    path = folder / "damaged.tif"
    path.write_bytes(damaged)
    try:
        file = geotiff.GeoTiff(path, max_bytes=1 << 24)
        tensor = file.read()
    except REFUSALS:
        return
    assert tensor.shape == file.shape
    assert tensor.nbytes <= 1 << 24


def test_an_image_beyond_the_limit_is_an_error(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    with pytest.raises(ValueError, match="limit"):
        geotiff.GeoTiff(path, max_bytes=1000).read()
    with pytest.raises(FileNotFoundError, match="absent"):
        geotiff.GeoTiff(tmp_path / "absent.tif")
