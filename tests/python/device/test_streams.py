"""Streams of declared functions.

The tests with the marker `gpu` run with the real frameworks, on a device or on the simulated CUDA
(tests/simulated_cuda), which proves most rules.
"""

import shutil

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


@pytest.mark.skipif(bool(shutil.which("nvidia-smi")), reason="there is a CUDA driver")
def test_a_thread_stream_without_cuda_says_why():
    with pytest.raises(RuntimeError, match="CUDA driver library cannot be loaded"):
        ab.thread_stream().__enter__()


def test_a_stream_of_a_negative_device_is_refused():
    with pytest.raises(ValueError, match="device must not be negative, not -1"):
        ab.thread_stream(device=-1)
