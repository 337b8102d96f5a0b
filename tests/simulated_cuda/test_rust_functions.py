"""Memory that Rust functions (of tests/extension) borrow and make on a device."""

import gc
import os

import arraybridge as ab
import arrays
import bridges
import cupy
import numpy as np
import pytest

VALUES = np.arange(4096, dtype="float32")
only_simulated = pytest.mark.skipif(
    not os.environ.get("SIMULATED_CUDA"), reason="memory is counted by the simulation"
)
if os.environ.get("SIMULATED_CUDA"):
    import loader
devices = pytest.mark.parametrize("index", [0, 1])


@pytest.fixture(scope="module")
def ext():
    return bridges.tests_extension()


@devices
def test_memory_that_a_function_borrowed_is_not_used_again_while_it_is_read(ext, index):
    place = f"torch:{index}"
    arrays.empty_pools()
    x = arrays.just_written(place, VALUES)
    at = arrays.address(x)
    with arrays.side_stream("cupy", index):
        # A result for PyTorch would be in order with PyTorch's stream anyway.
        result = ext.device_tensor(x)
        del x
        gc.collect()
        # The pool hands out the memory, in the order of its own stream.
        other = arrays.just_written(place, VALUES * 0)
        assert arrays.address(other) == at
        got = ab.convert(result, "cupy")
        np.testing.assert_array_equal(arrays.host(got), VALUES + 1)


@devices
def test_memory_that_a_function_borrowed_may_be_overwritten_right_after(ext, index):
    x = arrays.just_written(f"torch:{index}", VALUES)
    with arrays.side_stream("cupy", index):
        result = ext.device_tensor(x)
        arrays.overwrite(x)
        got = ab.convert(result, "cupy")
        np.testing.assert_array_equal(arrays.host(got), VALUES + 1)


@devices
def test_memory_is_ordered_with_the_stream_of_the_call(ext, index, monkeypatch):
    export = cupy.ndarray.__dlpack__
    asked = []

    def seen(array, *, stream=None, **options):
        asked.append(stream)
        return export(array, stream=stream, **options)

    monkeypatch.setattr(cupy.ndarray, "__dlpack__", seen)
    with cupy.cuda.Device(index), cupy.cuda.Stream(non_blocking=True) as stream:
        ext.device_facts(cupy.asarray(VALUES))
        assert asked == [stream.ptr]


@devices
def test_memory_of_jax_is_kept_while_a_function_reads_it(ext, index):
    place = f"jax:{index}"
    with arrays.side_stream("cupy", index):
        results = []
        for number in range(4):
            # JAX uses memory again as soon as its last owner is gone.
            results.append(ext.device_tensor(arrays.make(place, VALUES + number)))
        for number, result in enumerate(results):
            got = ab.convert(result, "cupy")
            np.testing.assert_array_equal(arrays.host(got), VALUES + number)


@devices
def test_the_memory_of_a_result_is_freed_on_its_own_stream(ext, index):
    with arrays.side_stream("cupy", index):
        y = ext.device_copy(arrays.just_written(f"cupy:{index}", VALUES))
        z = y * 2
        del y
        gc.collect()
        np.testing.assert_array_equal(arrays.host(z), (VALUES + 1) * 2)


@only_simulated
@devices
def test_the_memory_of_a_result_keeps_its_stream_alive(ext, index):
    x = arrays.make(f"cupy:{index}", VALUES)
    arrays.finish()
    before = loader.machine.simulated_used(index)
    with cupy.cuda.Device(index):
        with cupy.cuda.Stream(non_blocking=True):
            y = ext.device_copy(x)
        gc.collect()
        assert loader.machine.simulated_used(index) > before
        del y
        gc.collect()
    assert loader.machine.simulated_used(index) == before


IMAGE = np.arange(12, dtype="float32").reshape(3, 4)
two_devices = pytest.mark.two_devices


def images():
    """The image on each of two devices."""
    return arrays.make("cupy:0", IMAGE), arrays.make("cupy:1", IMAGE)


def test_arrays_have_the_declared_elements_or_those_of_the_first_array(ext):
    assert arrays.host(ext.device_ramp(5)).tolist() == [0, 1, 2, 3, 4]
    zeros = ext.device_zeros(IMAGE)
    assert (zeros.dtype, zeros.shape, zeros.any()) == ("uint8", (3, 4), False)
    for dtype in ("uint8", "float32"):
        host = IMAGE.astype(dtype)
        for array in (host, arrays.make("cupy:0", host)):
            result, name = ext.device_elements(array)
            assert isinstance(result, cupy.ndarray) and result.dtype == name == dtype
    with pytest.raises(TypeError, match="of uint8 or float32, not of float64"):
        ext.device_elements(arrays.make("cupy:0", IMAGE.astype("float64")))
    with pytest.raises(TypeError, match="'out'.*the dtype of 'image' decides"):
        ext.device_elements(IMAGE, arrays.make("cupy:0", IMAGE.astype("uint8")))


@devices
def test_a_view_is_of_the_memory_of_the_caller_where_it_lies(ext, index):
    x = arrays.make(f"cupy:{index}", np.arange(60, dtype="float32").reshape(6, 10))
    for part in (x, x[::2, 1::3], x[:, ::-1], x.T, x[:0], x[2:3, 3].reshape(())):
        shape, strides, address, device, described, _ = ext.device_facts(part)
        assert (tuple(shape), device, described) == (part.shape, index, f"accelerator:{index}")
        steps = [s * 4 for s, n in zip(strides, part.shape, strict=True) if n > 1]
        own = [s for s, n in zip(part.strides, part.shape, strict=True) if n > 1]
        assert not part.size or (address, steps) == (part.data.ptr, own)
    with pytest.raises(ValueError, match="contiguous"):
        ext.device_copy(x[::2])
    with pytest.raises(TypeError, match="'image': expected float32 elements, not float64"):
        ext.device_copy(arrays.host(x).astype("float64"))
    with pytest.raises(ValueError, match="misaligned"):
        ext.device_copy(arrays.make(f"cupy:{index}", np.zeros(41, "uint8"))[1:].view("float32"))


@two_devices
def test_a_call_is_on_the_device_of_its_first_array_or_of_its_declaration(ext):
    near, far = images()
    before = arrays.current()
    for array, index in ((near, 0), (far, 1), (IMAGE, 0), (far, 1)):
        assert ext.device_facts(array)[3:5] == (index, f"accelerator:{index}")
    assert ext.device_second(near) == ext.device_second(far) == "accelerator:1"
    assert arrays.current() == before


class Elsewhere:
    """An array on a device that is not there."""

    def __dlpack_device__(self):
        return (2, 7)


def test_a_device_that_the_framework_lacks_is_named(ext):
    text = "CuPy has no such memory on accelerator:7"
    with pytest.raises(ab.DeviceUnavailableError, match=text):
        ext.device_copy(Elsewhere())


@two_devices
def test_the_current_device_of_the_thread_stays_what_it_is(ext):
    _, far = images()
    for current in (0, 1):
        with cupy.cuda.Device(current):
            result = ext.device_copy(far)
            assert cupy.cuda.runtime.getDevice() == current
            tensor = ab.Tensor(result)
            with pytest.raises(ValueError, match="contiguous"):
                ext.device_copy(far[:, ::2])
            assert cupy.cuda.runtime.getDevice() == current
            del result, tensor
            gc.collect()
            assert cupy.cuda.runtime.getDevice() == current


@two_devices
def test_the_stream_of_a_call_is_that_of_its_device_whichever_is_current(ext):
    near, far = images()
    with arrays.side_stream("cupy", 1):
        handle = cupy.cuda.get_current_stream().ptr
        assert ext.device_facts(near)[-1] == 1 and ext.device_facts(far)[-1] == handle


@devices
def test_a_call_does_its_work_and_nothing_else(ext, index):
    calls = pytest.importorskip("test_calls")
    x = arrays.make(f"cupy:{index}", IMAGE)
    with arrays.side_stream("cupy", index):
        # The result is filled and then copied to.
        expected = {"copies": 2, "waits": 0, "order": 0}
        assert calls.effects(lambda: ext.device_copy(x)) == expected


@devices
def test_what_rust_code_exports_is_in_order_with_its_consumers(ext, index):
    with arrays.side_stream("cupy", index):
        own = ext.device_exchanged(arrays.just_written(f"cupy:{index}", VALUES))
    with arrays.side_stream("cupy", index):
        there = cupy.from_dlpack(own)
        made = there + 1
        del own, there
        gc.collect()
        np.testing.assert_array_equal(arrays.host(made), VALUES + 2)


@two_devices
def test_an_out_parameter_is_memory_of_the_device_of_the_call_or_refused(ext):
    near, far = images()
    here = "memory on CUDA device 0, but the array is on "
    for out, error, text in (
        (far, ab.CopyRequiredError, f"{here}device 1"),
        (np.zeros_like(IMAGE), ab.CopyRequiredError, f"{here}the host"),
        (ab.Tensor(arrays.make("jax:0", IMAGE)), ab.CopyRequiredError, "read-only"),
        (cupy.broadcast_to(near[:1], (3, 4)), ValueError, "share memory"),
        (arrays.make("cupy:0", IMAGE.astype("float64")), TypeError, "'out': expected float32"),
    ):
        with pytest.raises(error, match=text):
            ext.device_copy_into(arrays.make("cupy:0", IMAGE), out)
    out = arrays.make("cupy:0", np.zeros_like(IMAGE))
    assert ext.device_copy_into(IMAGE, out) is None
    np.testing.assert_array_equal(arrays.host(out), IMAGE)


@only_simulated
@pytest.mark.violates
def test_an_error_leaves_the_device_and_the_streams_as_they_were(ext):
    x, before = arrays.make("cupy:0", IMAGE), arrays.current()
    stream = cupy.cuda.Stream(non_blocking=True)
    gone = cupy.cuda.ExternalStream(stream.ptr)
    del stream
    with gone, pytest.raises(RuntimeError, match="CUDA reports error 400"):
        ext.device_copy(x)
    assert arrays.current() == before
    with pytest.raises(ab.RustPanicError, match="on purpose"):
        ext.device_panics()
    assert arrays.current() == before
    np.testing.assert_array_equal(arrays.host(ext.device_copy(x)), IMAGE)


@only_simulated
def test_the_kernel_of_the_examples_gets_the_image_as_it_lies(tmp_path):
    """On a device, the example's own tests call it."""
    (tmp_path / "libnvrtc.so").symlink_to(loader.FOLDER / "libnvrtc.so.13")
    code = """
        import bridges, cupy, numpy as np, scipy.ndimage as ndimage
        filters = bridges.extension("examples/image-filters")

        def expected(image):
            across, down = (ndimage.sobel(image.astype("f8"), axis) / 4 for axis in (1, 0))
            return np.sqrt((across**2 + down**2) / 2)

        random = np.random.default_rng(0).random((300, 170), dtype="f4")
        with cupy.cuda.Stream(non_blocking=True):
            x = cupy.asarray(random)
            for index in (..., np.s_[::3, ::-2], np.s_[:1], np.s_[:, :1]):
                for part, host in ((x[index], random[index]), (x.T[index], random.T[index])):
                    result = filters.sobel_cuda(part)
                    assert type(result) is cupy.ndarray and result.shape == host.shape
                    np.testing.assert_allclose(result.get(), expected(host), atol=1e-6)
        tall = np.random.default_rng(1).random((65535 * 8 + 9, 2), dtype="f4")
        np.testing.assert_allclose(filters.sobel_cuda(tall), expected(tall), atol=1e-6)
        assert filters.sobel_cuda(random[:0]).shape == (0, 170)
        bridges.raises(TypeError, lambda: filters.sobel_cuda(random[0]), "2-dimensional")
        import loader
        found = loader.violations()
        assert not found, found
    """
    bridges.survives(code, env={"LD_LIBRARY_PATH": str(tmp_path)})
