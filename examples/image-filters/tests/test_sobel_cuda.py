"""Sobel's operator as a CUDA kernel.

Its arithmetic is proven by a build for the host, and that it is CUDA by NVIDIA's compiler where
that is installed. What it does on a device is for the tests that carry the marker `gpu`.
"""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import arraybridge as ab
import bridges
import gpus
import image_filters
import numpy as np
import pytest
import scipy.ndimage
import skimage.filters

KERNEL = Path(__file__).parents[1] / "src" / "sobel.cu"
FAKES = bridges.ROOT / "tests" / "fakes" / "fake_cuda"
IMAGE = np.random.default_rng(0).random((37, 53), dtype="float32")


def expected(image):
    image = image.astype("float64")
    across, down = (scipy.ndimage.sobel(image, axis) / 4 for axis in (1, 0))
    return np.sqrt((across**2 + down**2) / 2)


@pytest.fixture(scope="module")
def on_host(tmp_path_factory):
    """The kernel as a function of NumPy arrays and the shapes of grid and block."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is needed")
    folder = tmp_path_factory.mktemp("sobel")
    (folder / "sobel.c").write_text(
        f'#include "{FAKES / "cuda_on_host.h"}"\n#include "{KERNEL}"\n'
        "void launch(struct dim3 grid, struct dim3 block, const float *image, float *result,\n"
        "            long long height, long long width, long long down, long long across)\n"
        "{ LAUNCH(grid, block, sobel(image, result, height, width, down, across)); }\n"
    )
    command = ["cc", "-std=gnu11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, folder / "sobel.so", folder / "sobel.c", "-lm"], check=True)
    launch = ctypes.CDLL(folder / "sobel.so").launch
    dim3 = type("dim3", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_uint) for n in "xyz"]})
    launch.argtypes = [dim3, dim3, *[ctypes.c_void_p] * 2, *[ctypes.c_longlong] * 4]

    def call(image, grid, block):
        result = np.full(image.shape, np.nan, "float32")
        strides = [stride // 4 for stride in image.strides]
        shapes = dim3(*grid, 1), dim3(*block, 1)
        launch(*shapes, image.ctypes.data, result.ctypes.data, *image.shape, *strides)
        return result

    return call


@pytest.mark.parametrize(
    "image",
    [IMAGE, IMAGE.T, IMAGE[::2, ::-3], IMAGE[::-1], IMAGE[:1], IMAGE[:, :1], IMAGE[:1, :1]],
    ids=["compact", "transposed", "strided", "backward", "row", "column", "pixel"],
)
@pytest.mark.parametrize("block", [(32, 8), (1, 1), (7, 3)])
def test_the_kernel_built_for_the_host_is_scipys(on_host, image, block):
    height, width = image.shape
    whole = -(-width // block[0]), -(-height // block[1])
    for grid in (whole, (whole[0], 1), (whole[0] + 2, whole[1] + 2)):
        result = on_host(image, grid, block)
        np.testing.assert_allclose(result, expected(image), atol=1e-6)


def test_the_kernel_built_for_the_host_is_scikit_images_and_the_host_functions(on_host):
    result = on_host(IMAGE, (2, 5), (32, 8))
    np.testing.assert_allclose(result, skimage.filters.sobel(IMAGE), atol=1e-6)
    np.testing.assert_allclose(result, image_filters.sobel(IMAGE), atol=1e-6)


def test_nvidias_compiler_takes_the_kernel():
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else []
    found = [path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    if not found:
        pytest.skip("NVRTC is not installed")
    nvrtc = ctypes.CDLL(str(found[0]))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = KERNEL.read_bytes()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"sobel.cu", 0, None, None) == 0
    status = nvrtc.nvrtcCompileProgram(program, 0, None)
    assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetProgramLog(program, log) == 0
    assert status == 0, log.value.decode()
    assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    ptx = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetPTX(program, ptx) == 0
    assert b".visible .entry sobel(" in ptx.value


def test_without_a_device_the_error_is_arraybridges():
    if not gpus.why_absent("cupy"):
        pytest.skip("there is a device")
    with pytest.raises((ab.FrameworkNotInstalledError, ab.DeviceUnavailableError), match="CuPy"):
        image_filters.sobel_cuda(IMAGE)


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("shape", [(37, 53), (1, 1), (0, 3), (2000, 3000)])
def test_on_a_device_sobel_is_scipys_and_the_host_functions(framework, shape):
    gpus.need("cupy", framework)
    image = np.random.default_rng(1).random(shape, dtype="float32")
    result = image_filters.sobel_cuda(gpus.make(framework, image))
    assert ab.detect_memory_type(result) == framework
    result = ab.convert(result, "numpy")
    np.testing.assert_allclose(result, expected(image), atol=1e-6)
    np.testing.assert_allclose(result, image_filters.sobel(image), atol=1e-6)


@pytest.mark.gpu
def test_on_a_device_a_strided_image_is_read_where_it_is():
    gpus.need("cupy")
    image = gpus.make("cupy", IMAGE)[::2, ::-1]
    result = image_filters.sobel_cuda(image).get()
    np.testing.assert_allclose(result, expected(IMAGE[::2, ::-1]), atol=1e-6)
