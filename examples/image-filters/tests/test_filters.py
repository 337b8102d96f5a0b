"""The filters give what SciPy and scikit-image give, for the arrays of every framework."""

import os
import signal
import subprocess
import sys
import time

import arraybridge
import bridges
import image_filters
import numpy as np
import pytest
import scipy.ndimage
import skimage.filters
from arraybridge.stubs import stub

FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow", "pyclesperanto")
IMAGE = np.random.default_rng(0).random((37, 53), dtype="float32")

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


def read(framework, array):
    assert arraybridge.detect_memory_type(array) == framework
    dtype, shape, data = bridges.read(framework, array)
    return np.frombuffer(data, dtype).reshape(shape)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("sigma", [0.0, 0.7, 3.0, 20.0])
def test_gaussian_is_scipys(framework, sigma):
    bridges.need(framework)
    result = read(framework, image_filters.gaussian(bridges.make(framework, IMAGE), sigma=sigma))
    np.testing.assert_allclose(result, scipy.ndimage.gaussian_filter(IMAGE, sigma), atol=1e-6)


def test_gaussian_is_a_part_of_a_program_of_jax():
    bridges.need("jax")
    import jax

    sharpened = lambda x: x + 0.5 * (x - image_filters.gaussian(x, sigma=2.0))  # noqa: E731
    np.testing.assert_allclose(jax.jit(sharpened)(IMAGE), sharpened(IMAGE), atol=1e-6)
    assert "ffi_call" in str(jax.make_jaxpr(sharpened)(IMAGE))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_sobel_is_scikit_images(framework):
    bridges.need(framework)
    result = read(framework, image_filters.sobel(bridges.make(framework, IMAGE)))
    np.testing.assert_allclose(result, skimage.filters.sobel(IMAGE), atol=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("radius", [0, 1, 4, 60])
def test_median_is_scipys(framework, radius):
    bridges.need(framework)
    image = bridges.make(framework, IMAGE[:20, :30])
    expected = scipy.ndimage.median_filter(IMAGE[:20, :30], 2 * radius + 1, mode="reflect")
    for median in (image_filters.median, image_filters.despeckle):
        assert np.array_equal(read(framework, median(image, radius)), expected)


@pytest.mark.parametrize(("radius", "error"), [(-1, OverflowError), (1001, ValueError)])
def test_an_error_names_the_radius(radius, error):
    with pytest.raises(error, match="radius"):
        image_filters.median(IMAGE, radius=radius)


ENDLESS = """
import image_filters, numpy
print("ready", flush=True)
image_filters.median(numpy.ones((4000, 4000), "float32"), radius=20)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_ctrl_c_ends_a_median():
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert errors.rstrip().endswith(b"KeyboardInterrupt"), errors


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_an_image_less_its_background_keeps_its_dtype(framework, dtype):
    bridges.need(framework)
    image = np.array([[0, 7, 200], [255, 9, 1]], dtype)
    background = np.array([[3, 7, 100], [1, 0, 2]], "uint8")
    result = image_filters.subtract_background(bridges.make(framework, image), background)
    result = read(framework, result)
    assert result.dtype == image.dtype
    assert result.tolist() == [[0, 0, 100], [254, 9, 0]]
    with pytest.raises(ValueError, match="differ"):
        image_filters.subtract_background(bridges.make(framework, image), background[:1])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_otsu_is_scikit_images(framework, dtype):
    bridges.need(framework)
    image = (IMAGE**3 * 200 + 20 * (IMAGE > 0.5)).astype(dtype)
    threshold = image_filters.otsu(bridges.make(framework, image))
    assert threshold == skimage.filters.threshold_otsu(image)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_images_are_summed_where_the_caller_has_the_sum(framework):
    out = bridges.make(framework, np.zeros_like(IMAGE))
    for _ in range(3):
        assert image_filters.accumulate((IMAGE * 255).astype("uint8"), out) is None
    assert bridges.difference(framework, out, 3 * np.floor(IMAGE * 255)) is None
    with pytest.raises(ValueError, match="differ"):
        image_filters.accumulate(IMAGE[1:], out)
    with pytest.raises(arraybridge.CopyRequiredError, match="'out'"):
        image_filters.accumulate(IMAGE, bridges.make("jax", np.zeros_like(IMAGE)))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_the_extrema_are_of_the_images_own_dtype(dtype):
    image = (IMAGE * 200).astype(dtype)
    least, most = image_filters.extrema(image)
    assert (least, most) == (image.min(), image.max())
    assert type(most) is (float if dtype == "float32" else int)
    with pytest.raises(TypeError, match="'image': expected an array of uint8, uint16 or float32"):
        image_filters.extrema(image.astype("float64"))


def test_integers_are_cast_on_purpose():
    image = (IMAGE * 255).astype("uint8")
    expected = scipy.ndimage.gaussian_filter(image.astype("float32"), 1.0)
    np.testing.assert_allclose(image_filters.gaussian(image), expected, atol=1e-4)


def test_a_strided_image_is_read_where_it_is():
    image = IMAGE[::2, ::-1]
    np.testing.assert_allclose(
        image_filters.sobel(image), skimage.filters.sobel(image.copy()), atol=1e-6
    )


def test_mistakes_are_pythons_exceptions_and_arraybridges():
    with pytest.raises(arraybridge.MemoryConversionError, match="gaussian"):
        image_filters.gaussian([[1.0, 2.0]])
    with pytest.raises(TypeError, match="2-dimensional"):
        image_filters.gaussian(IMAGE[0])
    with pytest.raises(TypeError, match="uint8 or uint16"):
        image_filters.otsu(IMAGE)
    for sigma in (-1.0, 1e12, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="sigma"):
            image_filters.gaussian(IMAGE, sigma=sigma)
    with pytest.raises(ValueError, match="no pixels"):
        image_filters.otsu(np.zeros((0, 3), "uint8"))
    assert image_filters.sobel(np.zeros((0, 3), "float32")).shape == (0, 3)


def test_a_method_is_declared_as_a_function_is():
    assert image_filters.Gaussian.__module__ == image_filters.gaussian.__module__
    smooth = image_filters.Gaussian(2.0).apply
    assert np.array_equal(smooth(IMAGE), image_filters.gaussian(IMAGE, 2.0))
    assert arraybridge.detect_memory_type(smooth(bridges.make("torch", IMAGE))) == "torch"


def test_edges_have_a_strength_and_a_direction():
    ramp = np.arange(5, dtype="float32")
    edges = image_filters.edges(np.tile(ramp, (4, 1)))
    assert type(edges) is image_filters.Edges
    assert np.array_equal(edges.strength, image_filters.sobel(np.tile(ramp, (4, 1))))
    assert abs(edges.direction[1:-1, 1:-1]).max() < 1e-6
    down = image_filters.edges(np.tile(ramp[:, None], (1, 4))).direction
    assert np.allclose(abs(down[1:-1, 1:-1]), np.pi / 2)


def test_the_mean_is_that_of_all_images():
    images = [np.full((2, 3), value, "uint8") for value in (1, 2, 6)]
    assert image_filters.mean_of(images).tolist() == [[3.0] * 3] * 2
    with pytest.raises(ValueError, match="the shapes differ"):
        image_filters.mean_of([IMAGE, IMAGE[1:]])
    with pytest.raises(ValueError, match="no images"):
        image_filters.mean_of([])


def test_the_stub_is_that_of_the_module():
    text = (bridges.ROOT / "examples" / "image-filters" / "image_filters.pyi").read_text()
    # python -m arraybridge stubs image_filters > image_filters.pyi
    assert text == stub(image_filters)
