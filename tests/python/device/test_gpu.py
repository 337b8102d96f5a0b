"""CuPy, torch, JAX and TensorFlow on a CUDA device. Skipped, with the reason, if there is none."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from gpus import BUSY, address, host, make, need, on_device

DEVICE_FRAMEWORKS = ("cupy", "torch", "jax", "tensorflow")
DTYPES = ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64")
IMAGE = np.arange(256 * 256, dtype="float32").reshape(256, 256)

pytestmark = pytest.mark.gpu


ALL = ("numpy", *DEVICE_FRAMEWORKS)


@pytest.mark.parametrize(("source", "target"), bridges.pairs(ALL, ALL))
def test_every_dtype_arrives(source, target):
    need(source, target)
    with bridges.x64(True):
        for dtype in DTYPES:
            image = bridges.values(dtype)
            y = ab.convert(make(source, image), target)
            got = host(target, y)
            assert (got.dtype, got.shape) == (image.dtype, image.shape), dtype
            assert got.tobytes() == image.tobytes(), dtype


@pytest.mark.parametrize(
    ("source", "target"), bridges.pairs(DEVICE_FRAMEWORKS, DEVICE_FRAMEWORKS, same=False)
)
def test_memory_is_shared_on_one_device(source, target):
    need(source, target)
    x = make(source, IMAGE)
    plan = ab.explain(x, target)
    y = ab.convert(x, target)
    assert on_device(target, y)
    assert plan.route == "share", plan
    if None not in (address(source, x), address(target, y)):
        assert address(source, x) == address(target, y)
    assert (host(target, y) == IMAGE).all()


@pytest.mark.parametrize(("source", "target"), bridges.pairs(DEVICE_FRAMEWORKS, DEVICE_FRAMEWORKS))
def test_copy_true_is_fresh_memory_on_the_device(source, target):
    need(source, target)
    x = make(source, IMAGE)
    y = ab.convert(x, target, copy=True)
    assert on_device(target, y)
    if None not in (address(source, x), address(target, y)):
        assert address(source, x) != address(target, y)
    assert (host(target, y) == IMAGE).all()


@pytest.mark.parametrize("framework", DEVICE_FRAMEWORKS)
def test_a_host_array_with_a_gpu_id_goes_to_that_device(framework):
    need(framework)
    y = ab.convert_memory(IMAGE, "numpy", framework, 0)
    assert on_device(framework, y)
    assert (host(framework, y) == IMAGE).all()
    with pytest.raises(ab.DeviceUnavailableError, match="99"):
        ab.convert_memory(IMAGE, "numpy", framework, 99)


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_the_host_can_be_asked_for(framework):
    need(framework)
    x = make(framework, IMAGE)
    y = ab.convert(x, framework, device="host")
    assert not on_device(framework, y)
    assert (host(framework, y) == IMAGE).all()


SHARERS = ("cupy", "torch", "jax")
# From frameworks whose users choose streams and strides, to those that can share the memory.
STREAM_PAIRS = bridges.pairs(("cupy", "torch"), SHARERS, same=False)


@pytest.mark.parametrize(("source", "target"), bridges.pairs(SHARERS, SHARERS, same=False))
def test_a_result_that_is_still_computed_arrives_finished(source, target):
    need(source, target)
    for _ in range(20):
        x = make(source, np.zeros(BUSY, "float32"))
        for _ in range(30):
            x = x + 1
        y = ab.convert(x, target)
        assert (host(target, y + 0) == 30).all()


@pytest.mark.parametrize(("source", "target"), STREAM_PAIRS)
def test_a_side_stream_is_waited_for(source, target):
    need(source, target)
    if source == "cupy":
        import cupy

        stream = scope = cupy.cuda.Stream(non_blocking=True)
    else:
        import torch

        stream = torch.cuda.Stream()
        scope = torch.cuda.stream(stream)
    stream.synchronize()
    with scope:
        x = make(source, np.zeros(BUSY, "float32"))
        for _ in range(50):
            x = x + 1
        y = ab.convert(x, target)
    assert (host(target, y + 0) == 50).all()


@pytest.mark.parametrize("source", DEVICE_FRAMEWORKS)
def test_numpy_gets_a_download(source):
    need(source)
    x = make(source, IMAGE)
    y = ab.convert(x, "numpy")
    assert isinstance(y, np.ndarray) and (y == IMAGE).all()
    assert ab.explain(x, "numpy").route == "copy"
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(x, "numpy", copy=False)


@pytest.mark.parametrize(
    ("source", "target"), bridges.pairs(DEVICE_FRAMEWORKS, DEVICE_FRAMEWORKS, same=False)
)
def test_a_result_outlives_its_source(source, target):
    need(source, target)
    results = []
    for i in range(10):
        x = make(source, IMAGE + i)
        results.append(ab.convert(x, target))
        del x
    rubbish = [make(source, np.full_like(IMAGE, -1)) for _ in range(20)]
    for i, y in enumerate(results):
        assert (host(target, y) == IMAGE + i).all(), i
    del rubbish


@pytest.mark.parametrize("framework", DEVICE_FRAMEWORKS)
def test_empty_and_scalar_arrays_arrive(framework):
    need(framework)
    for array in (np.zeros((0, 3), "float32"), np.array(2.5, "float32")):
        y = ab.convert(array, framework, device=0)
        assert on_device(framework, y)
        back = ab.convert(y, "numpy")
        assert back.shape == array.shape and (back == array).all()


def test_pyclesperanto_and_torch_on_one_machine_exchange_through_the_host(cle):
    need("torch")
    x = ab.convert(make("torch", IMAGE), "pyclesperanto")
    assert (x.get() == IMAGE).all()
    assert (host("torch", ab.convert(x, "torch")) == IMAGE).all()
