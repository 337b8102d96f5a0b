"""The call path of declared Rust functions in CUDA memory, on a fake driver and a fake CuPy.

The fake driver's device memory is host memory. It does its work as late as CUDA allows, and reports
two accesses that are in no order: see tests/fakes. The tests check which calls are made, on which
stream and in which order, that memory is freed once, and what happens when a call fails. They are
not evidence that anything works on a device. Each test runs in a process of its own, with NumPy and
the fakes only, since no real framework must meet the fake driver.
"""

import contextlib
import ctypes
import os
import shutil
import sys
import textwrap

import bridges
import faked
import pytest

pytestmark = [
    pytest.mark.skipif(
        "CUDA_VISIBLE_DEVICES" in os.environ,
        reason="a device is assigned to this process: the fake would take its place",
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="the fake stands for libcuda.so.1"),
    pytest.mark.skipif(
        not (shutil.which("cargo") and shutil.which("cc")), reason="cargo and cc build what is run"
    ),
]

PREFACE = """
import fake_cupy
cupy = fake_cupy.mount()
import ctypes, gc, re, numpy as np, arraybridge as ab, bridges
ext = bridges.module(sys.argv[1])
image = np.arange(12, dtype="f4").reshape(3, 4)

def raises(kind, text, call):
    try:
        result = call()
    except kind as error:
        assert re.search(text, str(error)), error
        return error
    raise SystemExit(f"no {kind.__name__} but {result!r}")
"""
DRIVER = """
driver = fake_cupy.attach()

def calls():
    return driver.fake_calls().decode().splitlines()

def violations():
    return driver.fake_violations().decode()

def fail(name, code, times=1):
    driver.fake_fail(name.encode(), code, times)
"""


@pytest.fixture
def run(driver):
    def run(code, crate="tests/extension"):
        path = bridges.built(crate)
        env = {"LD_LIBRARY_PATH": str(driver)}
        code = textwrap.dedent(code) + "\nfound = violations()\nassert not found, found\n"
        return faked.run(code, str(path), before=PREFACE + DRIVER, env=env)

    return run


def test_fake_cuda_a_host_array_goes_in_and_the_callers_framework_comes_out(run):
    run("""
        result = ext.device_copy(image)
        assert type(result) is np.ndarray and (result == image).all()
        result = ext.device_copy(cupy.ndarray(image.copy()))
        assert type(result) is cupy.ndarray and (result.get() == image).all()
        assert ext.device_ramp(5).get().tolist() == [0, 1, 2, 3, 4]
        zeros = ext.device_zeros(image)
        assert (zeros.dtype, zeros.shape, zeros.any()) == ("uint8", (3, 4), False)
        """)


def test_fake_cuda_a_view_is_of_the_callers_own_memory(run):
    run("""
        host = np.arange(60, dtype="f4").reshape(6, 10)
        scalar = host[2:3, 3].reshape(())
        for part in (host, host[::2, 1::3], host[:, ::-1], host.T, host[:0], scalar):
            shape, strides, address, *_ = ext.device_facts(cupy.ndarray(part))
            assert tuple(shape) == part.shape
            assert not part.size or address == part.ctypes.data
            steps = [s * 4 for s, n in zip(strides, part.shape) if n > 1]
            assert not part.size or steps == [s for s, n in zip(part.strides, part.shape) if n > 1]
        raises(ValueError, "contiguous", lambda: ext.device_copy(cupy.ndarray(host[::2])))
        raises(TypeError, "'image': expected float32 elements, not float64",
               lambda: ext.device_copy(host.astype("f8")))
        odd = np.zeros(41, "u1")[1:].view("f4")
        raises(ValueError, "misaligned", lambda: ext.device_copy(cupy.ndarray(odd)))
        """)


def test_fake_cuda_the_dtype_of_an_array_chooses_the_element_type(run):
    run("""
        for dtype in ("u1", "f4"):
            host = image.astype(dtype)
            for array in (host, cupy.ndarray(host)):
                result, name = ext.device_elements(array)
                assert type(result) is cupy.ndarray and result.dtype == dtype and name == host.dtype
        raises(TypeError, "of uint8 or float32, not of float64",
               lambda: ext.device_elements(cupy.ndarray(image.astype("f8"))))
        raises(TypeError, "'out'.*the dtype of 'image' decides",
               lambda: ext.device_elements(image, cupy.ndarray(image.astype("u1"))))
        """)


def test_fake_cuda_a_call_is_on_the_device_of_its_first_array(run):
    run("""
        def place(*arguments):
            *_, device, described, handle = ext.device_facts(*arguments)
            assert described == f"accelerator:{device}" and fake_cupy.current_device() == 0
            return device, handle

        with cupy.cuda.Device(1):
            far = cupy.ndarray(image)
        first, second = place(cupy.ndarray(image)), place(far)
        assert (first[0], second[0]) == (0, 1)
        assert place(image) == first and place(far) == second
        # The declaration says another device.
        assert ext.device_second(cupy.ndarray(image)) == ext.device_second(far) == "accelerator:1"
        """)


def test_fake_cuda_the_current_device_of_the_thread_stays_what_it_is(run):
    run("""
        with cupy.cuda.Device(1):
            far = cupy.ndarray(image.copy())
        for current in (0, 1):
            driver.fake_make_current(current)
            result = ext.device_copy(far)
            assert driver.fake_current() == current
            tensor = ab.Tensor(result)
            raises(ValueError, "contiguous", lambda: ext.device_copy(cupy.ndarray(image[:, ::2])))
            assert driver.fake_current() == current
            del result, tensor
            gc.collect()
            assert driver.fake_current() == current
        """)


def test_fake_cuda_a_function_runs_on_the_current_stream_of_its_framework(run):
    run("""
        x = cupy.ndarray(image)
        assert ext.device_facts(x)[-1] == 1
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            assert ext.device_facts(x)[-1] == stream.ptr
        with cupy.cuda.Device(1):
            far = cupy.ndarray(image)
            other = cupy.cuda.Stream()
        # That of the device of the call, whichever is current.
        with cupy.cuda.Device(1), other:
            assert ext.device_facts(x)[-1] == 1 and ext.device_facts(far)[-1] == other.ptr
        """)


def test_fake_cuda_a_call_enters_no_stream_and_waits_for_nothing(run):
    run("""
        x = cupy.ndarray(image.copy())
        with cupy.cuda.Stream() as stream:
            ext.device_copy(x)
            calls(); fake_cupy.LOG.clear()
            result = ext.device_copy(x)
            said, entered = calls(), list(fake_cupy.LOG)
        on = f"on {stream.ptr:#x}"
        assert said == [f"allocate 48 {on}", f"memset 48 {on}", f"copy 48 {on}"], said
        assert not any(line.endswith("enter stream") for line in entered), entered
        """)


def test_fake_cuda_what_rust_code_exports_is_ordered_with_the_legacy_stream(run):
    run("""
        with cupy.cuda.Stream(non_blocking=True) as stream:
            own = ext.device_exchanged(cupy.ndarray(image))
        said = calls()
        assert f"on {stream.ptr:#x}" in said[-2] and said[-1].startswith("0x1 waits for"), said
        with cupy.cuda.Stream(non_blocking=True):
            there = cupy.from_dlpack(own)
            there + 1
            del own, there
        gc.collect()
        assert calls()[-2:] == ["synchronize device 0", f"free on {stream.ptr:#x}"]
        """)


def test_fake_cuda_memory_is_ordered_with_the_stream_of_the_call(run):
    run("""
        with cupy.cuda.Stream(non_blocking=True) as stream:
            fake_cupy.LOG.clear()
            ext.device_facts(cupy.ndarray(image))
        assert f"export for stream {stream.ptr}" in fake_cupy.LOG, fake_cupy.LOG
        """)


def test_fake_cuda_an_out_parameter_is_the_callers_memory_or_refused(run):
    run("""
        out = np.zeros((3, 4), "f4")
        assert ext.device_copy_into(image, cupy.ndarray(out)) is None
        assert (cupy.ndarray(out).get() == image).all()
        with cupy.cuda.Device(1):
            far = cupy.ndarray(out)
        near = cupy.ndarray(image)
        raises(ab.CopyRequiredError, "memory on CUDA device 0, but the array is on device 1",
               lambda: ext.device_copy_into(near, far))
        raises(ab.CopyRequiredError, "memory on CUDA device 0, but the array is on the host",
               lambda: ext.device_copy_into(near, out))
        fixed = out.copy()
        fixed.flags.writeable = False
        raises(ab.CopyRequiredError, "read-only",
               lambda: ext.device_copy_into(near, cupy.ndarray(fixed)))
        shared = np.broadcast_to(np.zeros(4, "f4"), (3, 4))
        shared.flags.writeable = True
        raises(ValueError, "share memory", lambda: ext.device_copy_into(near, cupy.ndarray(shared)))
        raises(TypeError, "'out': expected float32",
               lambda: ext.device_copy_into(near, cupy.ndarray(out.astype("f8"))))
        """)


def test_fake_cuda_exhausted_memory_starts_the_ladder(run):
    run("""
        before = driver.fake_allocated()
        fail("cuMemAllocAsync", 2)
        fake_cupy.LOG.clear()
        assert (ext.device_copy(image) == image).all()
        assert any(line.startswith("free_all_blocks") for line in fake_cupy.LOG)

        fail("cuMemAllocAsync", 2, 99)
        error = raises(ab.DeviceMemoryError, r"float32 array of shape \\[3, 4\\] needs 48 bytes",
                       lambda: ext.device_copy(image))
        assert isinstance(error, MemoryError) and error.memory_type == "cupy"
        # It is never called again "on the host": it has no way to work there.
        assert [note.split(": ")[0] for note in error.__notes__[:2]] == [
            "arraybridge tried clear", "arraybridge tried second clear"]
        assert error.__notes__[2].startswith("arraybridge: no split: ")
        assert len(error.__notes__) == 3
        fail("", 0, 0)
        gc.collect()
        assert driver.fake_allocated() == before

        tries = []
        @ab.cupy(output_type="numpy")
        def f(x):
            tries.append(1)
            return ext.device_copy(x)

        # The Rust function's own ladder comes first, then that of the function that called it.
        fail("cuMemAllocAsync", 2, 3)
        assert (f(image) == image).all() and len(tries) == 2
        """)


def test_fake_cuda_a_failure_leaves_the_device_and_the_stream_as_they_were(run):
    run("""
        x = cupy.ndarray(image)
        ext.device_copy(x)
        fail("cuMemAllocAsync", 801)
        raises(RuntimeError, r"CUDA reports error 801", lambda: ext.device_copy(x))
        assert cupy.cuda.get_current_stream().ptr == 0 and fake_cupy.current_device() == 0
        try:
            ext.device_panics()
        except Exception as error:
            assert type(error).__name__ == "RustPanicError" and "on purpose" in str(error)
        else:
            raise SystemExit("no panic")
        assert cupy.cuda.get_current_stream().ptr == 0 and fake_cupy.current_device() == 0
        assert (ext.device_copy(x).get() == image).all()
        """)


def test_fake_cuda_a_machine_without_devices_gives_a_typed_error(run):
    run("""
        fake_cupy.DEVICES = 0
        raises(ab.DeviceUnavailableError, r"device_copy\\(\\) needs CUDA memory, but CuPy sees "
               "no CUDA device here; call it where", lambda: ext.device_copy(image))
        """)


def test_fake_cuda_a_device_that_the_framework_lacks_is_named(run):
    run("""
        with cupy.cuda.Device(1):
            far = cupy.ndarray(image)
        fake_cupy.DEVICES = 1
        raises(ab.DeviceUnavailableError, "CuPy has no such memory on accelerator:1",
               lambda: ext.device_copy(far))
        """)


def test_fake_cuda_without_a_driver_gives_a_typed_error():
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("there is a driver")
    path = bridges.built("tests/extension")
    code = """
        raises(ab.DeviceUnavailableError, r"libcuda\\) cannot be loaded; install NVIDIA's driver",
               lambda: ext.device_copy(image))
    """
    faked.run(code, str(path), before=PREFACE)


def test_fake_cuda_the_sobel_kernel_gets_the_image_as_it_lies(run):
    run(
        """
        import scipy.ndimage as ndimage

        def expected(a):
            a = a.astype("f8")
            across, down = ndimage.sobel(a, 1) / 4, ndimage.sobel(a, 0) / 4
            return np.sqrt((across**2 + down**2) / 2)

        random = np.random.default_rng(0).random((300, 70), dtype="f4")
        parts = (random, random.T, random[::3, ::-2], random[:1], random[:, :1], random[:1, :1])
        for part in parts:
            result = ext.sobel_cuda(cupy.ndarray(part))
            assert type(result) is cupy.ndarray and result.shape == part.shape
            np.testing.assert_allclose(result.get(), expected(part), atol=1e-6)
        tall = np.random.default_rng(1).random((65535 * 8 + 9, 2), dtype="f4")
        np.testing.assert_allclose(ext.sobel_cuda(tall), expected(tall), atol=1e-6)
        assert ext.sobel_cuda(random[:0]).shape == (0, 70)
        raises(TypeError, "2-dimensional", lambda: ext.sobel_cuda(random[0]))
        with cupy.cuda.Stream(non_blocking=True) as stream:
            calls()
            ext.sobel_cuda(cupy.ndarray(random))
            handle = next(line for line in calls() if "launch" in line).split()[-1]
            assert int(handle, 16) == stream.ptr > 2
        """,
        crate="examples/image-filters",
    )
