"""Devices and streams of declared functions, as far as they can be seen without a device.

The fake CuPy has devices to enter and no CUDA behind it, so that no stream of ours is ever made.
What the streams themselves do needs a GPU: those tests carry the marker and are skipped without.
"""

import textwrap

import arraybridge as ab
import bridges
import numpy as np
import pytest

PREFACE = """
import sys
sys.path.insert(0, sys.argv[1])
import fake_cupy
cupy = fake_cupy.mount()
import asyncio, numpy as np, arraybridge as ab
image = np.arange(6, dtype="f4").reshape(2, 3)
here = fake_cupy.current_device
"""

fake = pytest.mark.skipif(
    "CUDA_VISIBLE_DEVICES" in __import__("os").environ,
    reason="a device is assigned to this process: the fake and real frameworks would disagree",
)


def run(code):
    bridges.survives(PREFACE + textwrap.dedent(code), str(bridges.ROOT / "tests" / "fakes"))


@fake
def test_fake_cupy_a_call_makes_its_device_current_and_the_former_one_again():
    run(
        """
        @ab.cupy(device=1)
        def f(image, fail=False):
            assert here() == 1
            if fail:
                raise KeyError("inside")
            return image

        assert f(image).device.id == 1 and here() == 0
        try:
            f(image, fail=True)
        except KeyError:
            assert here() == 0
        """
    )


@fake
def test_fake_cupy_all_arrays_go_to_the_device_of_the_first_one_of_the_framework():
    run(
        """
        with cupy.cuda.Device(1):
            far = cupy.ndarray(image)
        near = cupy.ndarray(image)

        @ab.cupy
        def f(*arrays):
            return [array.device.id for array in arrays], here()

        assert f(image, far, near) == ([1, 1, 1], 1)
        assert f(near, far, image) == ([0, 0, 0], 0)
        with cupy.cuda.Device(1):
            assert f(image) == ([1], 1) and f(near) == ([0], 0) and here() == 1
        assert here() == 0
        """
    )


@fake
def test_fake_cupy_two_tasks_that_take_turns_keep_their_own_device():
    run(
        """
        seen = []

        def declare(device):
            @ab.cupy(device=device, output_type="numpy")
            async def f(image):
                for _ in range(3):
                    seen.append((device, here()))
                    await asyncio.sleep(0)
                return image
            return f

        async def main():
            tasks = [asyncio.create_task(declare(i)(image)) for i in (0, 1)]
            while not all(task.done() for task in tasks):
                assert here() == 0
                await asyncio.sleep(0)
            return [task.result() for task in tasks]

        for result in asyncio.run(main()):
            assert (result == image).all()
        assert seen == [(0, 0), (1, 1)] * 3, seen
        """
    )


@fake
def test_fake_cupy_generators_leave_their_device_before_they_yield():
    run(
        """
        @ab.cupy(device=1)
        def f(image):
            try:
                for _ in range(2):
                    assert here() == 1
                    yield image
            finally:
                closed.append(here())

        @ab.cupy(device=1)
        async def g(image):
            for _ in range(2):
                assert here() == 1
                await asyncio.sleep(0)
                yield image

        closed = []
        for array in f(image):
            assert here() == 0 and array.device.id == 1
        steps = f(image)
        next(steps)
        steps.close()
        assert closed == [1, 1]

        async def main():
            async for array in g(image):
                assert here() == 0 and array.device.id == 1

        asyncio.run(main())
        """
    )


@fake
def test_fake_cupy_without_cuda_no_stream_is_entered():
    run(
        """
        @ab.cupy(output_type="numpy")
        def f(image):
            return image

        assert (f(image) == image).all()
        assert "enter stream" not in fake_cupy.LOG
        """
    )


def test_a_call_with_host_arrays_enters_nothing():
    bridges.need("torch")
    import torch

    @ab.torch
    def f(image):
        assert torch.zeros(1).device.type == "cpu"
        return image

    f(np.zeros(3, "float32"))
    with torch.device("meta"):
        # The caller's own default device does not change.
        assert ab.torch(lambda image: torch.zeros(1))(torch.zeros(3)).device.type == "meta"


def gpu(*names):
    for name in names:
        bridges.need("torch") if name == "torch" else pytest.importorskip(name)
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")


@pytest.mark.gpu
def test_a_thread_has_one_stream_in_every_framework_that_adopts_it():
    gpu("torch", "cupy")
    import cupy
    import torch

    def handles():
        return torch.cuda.current_stream().cuda_stream, cupy.cuda.get_current_stream().ptr

    @ab.torch
    def f(image):
        return handles(), g(image)

    @ab.cupy
    def g(image):
        return handles()

    before = handles()
    (a, b), inner = f(torch.zeros(4, device="cuda"))
    assert a == b != 0 and inner == (a, b) and handles() == before
    assert f(torch.zeros(4, device="cuda"))[0] == (a, b)


@pytest.mark.gpu
def test_work_on_the_callers_stream_is_seen_and_waits_for_the_result():
    gpu("torch")
    import torch

    @ab.torch
    def f(image):
        for _ in range(50):
            image = image @ eye
        return image

    eye = torch.eye(2048, device="cuda")
    for _ in range(5):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.zeros(2048, 2048, device="cuda")
            torch.cuda._sleep(20_000_000)
            x += 3
            y = f(x)
            x.zero_()
            assert float(y.min()) == float(y.max()) == 3
