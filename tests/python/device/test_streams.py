"""Streams of declared functions, as far as neither a device nor the simulated CUDA shows them.

The tests with the marker `gpu` run with the real frameworks, on a device or on the simulated CUDA
(tests/simulated_cuda), which proves most rules. The others run on a fake driver that does its work
as late as it may, and knows when two accesses to the same memory are in no order: TensorFlow and
pyclesperanto are not on the simulation, and it has no broken driver.
"""

import shutil
import subprocess

import arraybridge as ab
import faked
import gpus
import numpy as np
import pytest


@faked.without_a_device
def test_fake_cupy_without_cuda_no_stream_is_entered():
    faked.run("""
        import fake_cupy
        fake_cupy.mount()
        import numpy as np, arraybridge as ab

        @ab.cupy(output_type="numpy")
        def f(image):
            return image

        image = np.arange(6, dtype="f4")
        assert (f(image) == image).all()
        assert "enter stream" not in fake_cupy.LOG
        """)


def test_a_call_with_host_arrays_enters_nothing(torch):
    @ab.torch
    def f(image):
        assert torch.zeros(1).device.type == "cpu"
        return image

    f(np.zeros(3, "float32"))
    with torch.device("meta"):
        # The caller's own default device does not change.
        assert ab.torch(lambda image: torch.zeros(1))(torch.zeros(3)).device.type == "meta"


@pytest.mark.gpu
def test_a_function_runs_on_the_streams_that_the_caller_is_on(torch):
    gpus.need("torch", "cupy")
    import cupy

    def handles():
        return torch.cuda.current_stream().cuda_stream, cupy.cuda.get_current_stream().ptr

    f = ab.torch(lambda image: handles())
    x = torch.zeros(4, device="cuda")
    assert f(x) == handles()
    with torch.cuda.stream(torch.cuda.Stream()), cupy.cuda.Stream():
        assert f(x) == handles()
    with ab.thread_stream():
        a, b = handles()
        assert a == b != 0 and f(x) == (a, b)


@pytest.mark.gpu
def test_work_on_the_callers_stream_is_seen_and_waits_for_the_result(torch):
    gpus.need("torch")

    @ab.torch
    def f(image):
        for _ in range(50):
            image = image @ eye
        return image

    eye = torch.eye(gpus.BUSY[0], device="cuda")
    # It was made on the default stream.
    torch.cuda.synchronize()
    for _ in range(5):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.zeros(gpus.BUSY, device="cuda")
            torch.cuda._sleep(20_000_000)
            x += 3
            y = f(x)
            x.zero_()
            assert float(y.min()) == float(y.max()) == 3


# The rest is on the fake driver: see tests/fakes. Each program ends by asking it which rules were
# broken.


@faked.without_a_device
def test_fake_driver_work_waits_until_it_is_asked_for(on_driver):
    on_driver("""
        x = cupy.asarray(image)
        y = x + 1
        assert driver.fake_pending() >= 3 and not (y._host == image + 1).any()
        assert (y.get() == image + 1).all()
        """)


@faked.without_a_device
def test_fake_driver_a_read_in_no_order_with_its_write_is_a_violation(on_driver):
    on_driver("""
        with cupy.cuda.Stream(non_blocking=True) as one:
            x = cupy.asarray(image)
        with cupy.cuda.Stream(non_blocking=True) as other:
            y = x + 1
        found = violations()
        assert f"cupy's sum on {other.ptr:#x} reads what an upload on {one.ptr:#x}" in found, found
        # An event puts them in order, and so does a wait of the host.
        fake_device.order(one.ptr, other.ptr)
        with other:
            y = x + 1
        assert not violations()
        """)


@faked.without_a_device
def test_fake_driver_a_block_that_is_used_again_too_early_is_a_violation(on_driver):
    on_driver("""
        one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        with one:
            x = cupy.asarray(image)
        fake_device.order(one.ptr, other.ptr)
        with other:
            x + 1
        del x
        with one:
            cupy.empty((2, 3), "float32")
        found = violations()
        assert "reuse of a block" in found and "cupy's sum" in found, found
        """)


@pytest.mark.skipif(bool(shutil.which("nvidia-smi")), reason="there is a CUDA driver")
def test_a_thread_stream_without_cuda_says_why():
    with pytest.raises(RuntimeError, match="CUDA driver library cannot be loaded"):
        ab.thread_stream().__enter__()


def test_a_stream_of_a_negative_device_is_refused():
    with pytest.raises(ValueError, match="device must not be negative, not -1"):
        ab.thread_stream(device=-1)


# TensorFlow's exports wait on the host, its imports for nothing, and its streams are its own.


@faked.without_a_device
@pytest.mark.parametrize("target", ["cupy", "torch"])
def test_fake_driver_a_tensor_of_tensorflow_is_finished_when_it_is_handed_over(on_driver, target):
    on_driver(
        """
        target = sys.argv[1]
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            y = ab.convert(tf.constant(image) + 1, target, copy=False)
            z = y + 1
            read = z.get if target == "cupy" else z.cpu
            assert (read() == image + 2).all()
        """,
        target,
    )


@faked.without_a_device
@pytest.mark.parametrize("source", ["cupy", "torch"])
def test_fake_driver_tensorflow_gets_memory_that_is_finished(on_driver, source):
    on_driver(
        """
        make = {"torch": torch.tensor, "cupy": cupy.asarray}[sys.argv[1]]
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            y = ab.convert(make(image) + 1, "tensorflow", copy=False)
            assert type(y) is tf.EagerTensor and ((y + 1).numpy() == image + 2).all()
        """,
        source,
    )


@faked.without_a_device
def test_fake_driver_memory_of_tensorflow_is_kept_until_a_call_is_done(on_driver):
    on_driver("""
        f = reader(ab.cupy(copy=False))
        x = tf.constant(image)
        f(x)
        del x
        gc.collect()
        for _ in range(3):
            # It must not get the block, whose reader has not run yet.
            f(tf.constant(image))
        """)


@faked.without_a_device
def test_fake_driver_a_tensor_that_tensorflow_keeps_on_the_host_is_not_on_the_device(on_driver):
    on_driver("""
        assert tf.constant(image.astype("i4")).backing_device.endswith("CPU:0")
        far = lambda: ab.convert(image.astype("i4"), "tensorflow", device=1)
        bridges.raises(ab.DeviceUnavailableError, far, "TensorFlow")
        x = ab.convert(image, "tensorflow", device=1)
        assert x.backing_device.endswith("GPU:1") and (x.numpy() == image).all()
        # DeepCopy has no kernel for uint8, whose copy lands on the host.
        given = tf.constant(image.astype("u1"))
        copy = ab.convert(given, "tensorflow", copy=True)
        assert copy.backing_device == given.backing_device, copy.backing_device
        """)


@faked.without_a_device
def test_fake_driver_tensorflow_gets_no_memory_that_is_not_aligned(on_driver):
    on_driver("""
        whole = torch.tensor(np.arange(65, dtype="f4"))
        view = torch.Tensor(whole._host[1:], 0)
        y = ab.convert(view, "tensorflow")
        assert ((y + 1).numpy() == np.arange(2, 66)).all()
        """)


@faked.without_a_device
def test_fake_driver_an_array_of_pyclesperanto_goes_to_another_device_through_the_host(on_driver):
    on_driver("""
        for first, second in ((0, 1), (1, 0), (1, 1)):
            x = cle.push(image, cle.DEVICES[first])
            # Its table lists no export, whatever the array itself says.
            assert x.__dlpack_device__() == (2, first)
            told = ab.explain(x, "torch", device=second)
            assert told.how == "through the host", told
            y = ab.convert(x, "torch", device=second)
            assert y.device == torch.device("cuda", second) and (y.cpu() == image).all()
            back = ab.convert(y, "pyclesperanto", device=first)
            assert back.device is cle.DEVICES[first] and (back.get() == image).all()
        """)


STUB = """
int cuInit(unsigned flags) { return 34; }
int cuCtxGetCurrent(void **context) { return 34; }
"""


@faked.without_a_device
def test_fake_driver_a_toolkits_stub_that_is_found_before_the_driver_is_named(on_driver, tmp_path):
    # A CUDA toolkit has a `libcuda.so` for linking, each of whose functions gives this error.
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "libcuda.so"]
    subprocess.run(command, input=STUB, text=True, check=True)
    on_driver(
        """
        try:
            with ab.thread_stream():
                raise AssertionError("a stub has a stream")
        except RuntimeError as error:
            assert "stub" in str(error) and "LD_LIBRARY_PATH" in str(error), error
        # The lender cannot be made to wait, so it never gets the memory back.
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                reader(ab.torch(copy=False))(cupy.asarray(image))
        """,
        before=tmp_path,
    )
