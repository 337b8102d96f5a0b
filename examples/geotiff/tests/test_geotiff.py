"""The reader gives what rasterio gives, and an error for what is no GeoTIFF."""

import arraybridge
import geotiff
import numpy as np
import pytest
import rasterio
import xarray
from rasterio.transform import Affine, from_origin

DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64")
TRANSFORM = from_origin(500_000, 4_600_000, 10, 20)

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


def write(path, data, transform=TRANSFORM, crs="EPSG:32633", **options):
    bands, height, width = data.shape
    options.update(driver="GTiff", count=bands, height=height, width=width, dtype=data.dtype)
    with rasterio.open(path, "w", crs=crs, transform=transform, **options) as file:
        file.write(data)
    return path


def pixels(dtype, bands=3, height=70, width=50):
    values = np.random.default_rng(0).integers(0, 100, (bands, height, width))
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bands", [1, 3, 5])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("compress", ["none", "deflate", "lzw"])
def test_pixels_are_rasterios(tmp_path, dtype, bands, interleave, tiled, compress):
    options = {"blockxsize": 32, "blockysize": 16} if tiled else {}
    path = write(tmp_path / "x.tif", pixels(dtype, bands), interleave=interleave, tiled=tiled,
                 compress=compress, photometric="minisblack", **options)  # fmt: skip
    if tiled and interleave == "band" and bands > 1:
        with pytest.raises(ValueError, match="plane for each band"):
            geotiff.decode(path)
        return
    try:
        tensor, transform, epsg = geotiff.decode(path)
    except ValueError as error:
        if tiled and "lzw" in str(error):
            pytest.xfail("the tiff crate refuses some LZW tiles")
        raise
    with rasterio.open(path) as file:
        expected = file.read()
        assert transform == list(file.transform)[:6]
        assert epsg == file.crs.to_epsg()
    assert (tensor.dtype, tensor.device) == (dtype, "host")
    assert np.array_equal(np.asarray(tensor), expected)


@pytest.mark.parametrize("predictor", [2, 3])
def test_predictors_are_undone(tmp_path, predictor):
    dtype = "float32" if predictor == 3 else "uint16"
    path = write(tmp_path / "x.tif", pixels(dtype), compress="deflate", predictor=predictor)
    assert np.array_equal(np.asarray(geotiff.decode(path)[0]), pixels(dtype))


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax", "tensorflow"])
def test_pixels_come_in_any_framework(tmp_path, framework):
    data = pixels("uint16")
    array, _, _ = geotiff.read(write(tmp_path / "x.tif", data), framework)
    assert arraybridge.detect_memory_type(array) == framework
    assert np.array_equal(np.asarray(array), data)


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_xarray_opens_a_file_with_coordinates(tmp_path, framework):
    path = write(tmp_path / "x.tif", pixels("float32"))
    data = xarray.open_dataarray(path, engine="geotiff", framework=framework)
    assert data.dims == ("band", "y", "x")
    assert arraybridge.detect_memory_type(data.data) == framework
    assert (data.x[0], data.x[1], data.y[0], data.y[1]) == (500_005, 500_015, 4_599_990, 4_599_970)
    assert data.attrs["crs"] == "EPSG:32633"
    assert np.array_equal(data.sel(band=2).values, pixels("float32")[1])


def test_a_rotated_image_has_a_transform_and_no_coordinates(tmp_path):
    rotated = Affine.rotation(30) * Affine.scale(2, 3)
    path = write(tmp_path / "x.tif", pixels("uint8"), transform=rotated)
    _, transform, _ = geotiff.decode(path)
    np.testing.assert_allclose(transform, list(rotated)[:6])
    assert "x" not in xarray.open_dataarray(path, engine="geotiff").coords


def test_a_point_is_the_centre_of_its_pixel(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    with rasterio.open(path, "r+") as file:
        file.update_tags(AREA_OR_POINT="Point")
    with rasterio.open(path) as file:
        np.testing.assert_allclose(geotiff.decode(path)[1], list(file.transform)[:6])


def test_a_plain_tiff_has_no_place(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"), transform=None, crs=None)
    assert geotiff.decode(path)[1:] == (None, None)


def test_every_truncation_is_an_error(tmp_path):
    whole = write(tmp_path / "x.tif", pixels("uint16"), compress="deflate").read_bytes()
    cut = tmp_path / "cut.tif"
    for length in range(0, len(whole) - 1, max(1, len(whole) // 150)):
        cut.write_bytes(whole[:length])
        with pytest.raises((ValueError, OSError)):
            geotiff.decode(cut)


def test_no_damage_ends_the_process(tmp_path):
    whole = bytearray(write(tmp_path / "x.tif", pixels("uint8", 1, 16, 16)).read_bytes())
    random = np.random.default_rng(1)
    path = tmp_path / "damaged.tif"
    for _ in range(500):
        damaged = whole.copy()
        for at in random.integers(0, len(whole), 4):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        try:
            tensor, _, _ = geotiff.decode(path, max_bytes=1 << 24)
        except (ValueError, OSError, OverflowError):
            continue
        assert tensor.nbytes <= 1 << 24


def test_an_image_beyond_the_limit_is_an_error(tmp_path):
    path = write(tmp_path / "x.tif", pixels("uint8"))
    with pytest.raises(ValueError, match="[Ll]imit"):
        geotiff.decode(path, max_bytes=1000)
    with pytest.raises(OSError):
        geotiff.decode(tmp_path / "absent.tif")
