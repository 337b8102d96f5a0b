"""Two extension wheels and the package in one process are one system."""

import arraybridge as ab
import geotiff
import image_filters
import numpy as np
import pytest
import rasterio
import scipy.ndimage
import skimage.filters

IMAGE = np.random.default_rng(0).integers(0, 60_000, (2, 37, 53), dtype="uint16")

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "image.tif"
    options = {"driver": "GTiff", "count": 2, "height": 37, "width": 53, "dtype": "uint16"}
    with rasterio.open(path, "w", **options) as file:
        file.write(IMAGE)
    return path


def test_what_one_extension_reads_another_filters(path):
    tensor = geotiff.GeoTiff(str(path)).read()
    assert type(tensor) is ab.Tensor
    assert image_filters.otsu(tensor) == skimage.filters.threshold_otsu(IMAGE)
    stack = ab.convert(tensor, "numpy")
    smooth = image_filters.gaussian(stack, 1.5, slice_by_slice=True)
    expected = scipy.ndimage.gaussian_filter(IMAGE.astype("float32"), (0, 1.5, 1.5))
    np.testing.assert_allclose(smooth, expected, rtol=1e-5)


def test_their_functions_are_declared_by_the_package(path):
    assert type(image_filters.gaussian) is ab.Declared
    image = geotiff.read(str(path), "torch", bands=[1])[0]
    with ab.trace() as records:
        result = image_filters.gaussian(image, dtype_conversion="uint16")
    assert (ab.detect_memory_type(result), str(result.dtype)) == ("torch", "torch.uint16")
    assert records and all(type(record) is ab.Record for record in records)


def test_their_errors_are_the_packages(tmp_path):
    with pytest.raises(ab.MemoryConversionError):
        image_filters.gaussian("no image")
    with pytest.raises(ab.FrameworkNotInstalledError):
        geotiff.read(str(missing_framework_file(tmp_path)), "cupy")


def missing_framework_file(folder):
    path = folder / "small.tif"
    options = {"driver": "GTiff", "count": 1, "height": 1, "width": 1, "dtype": "uint8"}
    with rasterio.open(path, "w", **options) as file:
        file.write(np.ones((1, 1, 1), "uint8"))
    return path
