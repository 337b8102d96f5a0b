"""Devices and streams of declared functions, as far as they can be seen without a device.

The first tests need no driver: a fake CuPy has devices to enter. The others run on a fake driver
that does its work as late as it may, and knows when two accesses to the same memory are in no
order. What the real frameworks do needs a GPU: those tests carry the marker and are skipped
without.
"""

import functools
import shutil
import subprocess

import arraybridge as ab
import bridges
import faked
import gpus
import numpy as np
import pytest

PREFACE = """
import fake_cupy
cupy = fake_cupy.mount()
import asyncio, numpy as np, arraybridge as ab
image = np.arange(6, dtype="f4").reshape(2, 3)
here = fake_cupy.current_device
"""


run = functools.partial(faked.run, before=PREFACE)


@faked.without_a_device
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


@faked.without_a_device
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


@faked.without_a_device
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


@faked.without_a_device
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


@faked.without_a_device
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
def test_a_function_runs_on_the_streams_that_the_caller_is_on():
    gpu("torch", "cupy")
    import cupy
    import torch

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
def test_work_on_the_callers_stream_is_seen_and_waits_for_the_result():
    gpu("torch")
    import torch

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
    on_driver(
        """
        x = cupy.asarray(image)
        y = x + 1
        assert driver.fake_pending() >= 3 and not (y._host == image + 1).any()
        assert (y.get() == image + 1).all()
        """
    )


@faked.without_a_device
def test_fake_driver_a_read_in_no_order_with_its_write_is_a_violation(on_driver):
    on_driver(
        """
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
        """
    )


@faked.without_a_device
def test_fake_driver_the_default_stream_waits_for_blocking_streams_alone(on_driver):
    on_driver(
        """
        for non_blocking in (False, True):
            with cupy.cuda.Stream(non_blocking=non_blocking) as stream:
                x = cupy.asarray(image)
            x + 1
            assert bool(violations()) is non_blocking
        """
    )


@faked.without_a_device
def test_fake_driver_a_block_that_is_used_again_too_early_is_a_violation(on_driver):
    on_driver(
        """
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
        """
    )


@faked.without_a_device
def test_fake_driver_handles_that_do_not_exist_are_refused(on_driver):
    on_driver(
        """
        stream = fake_device.create_stream(True)
        fake_device.destroy_stream(stream)
        pointer = fake_device.ctypes.c_void_p
        for handle in (stream, 0x1234):
            assert driver.cuStreamSynchronize(pointer(handle)) == 400
        found = violations()
        assert "used after it was destroyed" in found and "0x1234 does not exist" in found, found
        """
    )


@faked.without_a_device
def test_fake_driver_an_error_of_the_device_stays(on_driver):
    on_driver(
        """
        driver.fake_fail(b"cuCtxSynchronize", 700, 1)
        assert [driver.cuCtxSynchronize() for _ in range(2)] == [700, 700]
        """
    )


@faked.without_a_device
def test_fake_driver_a_cupy_stream_is_refused_on_another_device(on_driver):
    on_driver(
        """
        stream = cupy.cuda.Stream()
        try:
            with cupy.cuda.Device(1), stream:
                raise SystemExit("it is entered")
        except RuntimeError as error:
            assert "does not match with the current device (1)" in str(error)
        """
    )


@faked.without_a_device
def test_fake_driver_results_of_one_stream_may_be_used_and_dropped_on_another(on_driver):
    # Each call allocates on the stream that its caller is on.
    on_driver(
        """
        one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        with one:
            x = cupy.asarray(image)
        with other:
            x2 = cupy.asarray(image)
        f = ab.cupy(lambda x: x + 1)
        for _ in range(3):
            with one:
                y = f(x)
                z = y + 1
                del y
            with other:
                f(x2)
        with one:
            assert (z.get() == image + 2).all()
        """
    )


@faked.without_a_device
def test_fake_driver_threads_share_no_pool(on_driver):
    on_driver(
        """
        f = ab.cupy(lambda x: x + 1)
        results = []

        def work():
            with cupy.cuda.Stream(non_blocking=True):
                x = cupy.asarray(image)
                for _ in range(3):
                    x = f(x)
                results.append(x.get())

        for _ in range(2):
            threads = [threading.Thread(target=work) for _ in range(2)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        # A thread that raised has appended nothing.
        assert len(results) == 4 and all((result == image + 3).all() for result in results)
        """
    )


@faked.without_a_device
def test_fake_driver_a_call_waits_for_nothing_and_enters_no_stream(on_driver):
    on_driver(
        """
        x = cupy.asarray(image)
        f = ab.cupy(lambda x: x + 1)
        calls(), fake_cupy.LOG.clear()
        f(x)
        assert not calls() and "enter stream" not in fake_cupy.LOG
        """
    )


@faked.without_a_device
@pytest.mark.parametrize("pair", ["torch cupy", "cupy torch"])
def test_fake_driver_a_conversion_is_ordered_with_the_consumers_stream(on_driver, pair):
    on_driver(
        f"""
        pair = {pair!r}.split()
        """
        + """
        make = {"torch": torch.tensor, "cupy": cupy.asarray}[pair[0]]
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            x = make(image)
            y = ab.convert(x, pair[1])
            z = y + 1
            read = z.get if pair[1] == "cupy" else z.cpu
            assert (read() == image + 1).all()
        """
    )


@faked.without_a_device
@pytest.mark.parametrize("pair", ["torch cupy", "cupy torch"])
def test_fake_driver_lent_memory_is_not_used_again_while_a_call_reads_it(on_driver, pair):
    on_driver(
        f"""
        pair = {pair!r}.split()
        """
        + """
        lender, borrower = ({"torch": torch, "cupy": cupy}[name] for name in pair)
        make = {"torch": torch.tensor, "cupy": cupy.asarray}[pair[0]]
        f = reader({"torch": ab.torch, "cupy": ab.cupy}[pair[1]])
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            x = make(image)
            f(x)
            calls()
            del x
            lender.empty((2, 3), dtype="float32")
            assert not any("synchronize" in line for line in calls())
        """
    )


@faked.without_a_device
def test_fake_driver_frameworks_on_the_same_stream_need_no_event(on_driver):
    on_driver(
        """
        f = reader(ab.cupy)
        x = torch.tensor(image)
        calls()
        f(x)
        assert not calls()
        """
    )


@faked.without_a_device
def test_fake_driver_a_call_that_fails_gives_lent_memory_back_as_well(on_driver):
    on_driver(
        """
        @ab.cupy(oom_recovery=False)
        def f(x):
            x + 1
            raise KeyError("inside")

        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.tensor(image)
            try:
                f(x)
            except KeyError as error:
                error.__traceback__ = None
            del x
            torch.empty((2, 3))
        """
    )


@faked.without_a_device
def test_fake_driver_memory_of_a_framework_without_streams_is_kept_until_a_call_is_done(on_driver):
    on_driver(
        """
        f = reader(ab.cupy(copy=False))
        x = jax.array(image)
        f(x)
        calls()
        del x
        gc.collect()
        for _ in range(3):
            # It must not get the block, whose reader has not run yet.
            jax.array(image)
            f(jax.array(image))
        assert not any("synchronize" in line for line in calls())
        """
    )


@faked.without_a_device
def test_fake_driver_kept_memory_goes_back_when_the_call_is_done(on_driver):
    on_driver(
        """
        import weakref
        f = reader(ab.cupy(copy=False))
        x = jax.array(image)
        owner = weakref.ref(x._host.base)
        f(x)
        del x
        f(cupy.asarray(image))
        gc.collect()
        assert owner() is not None
        driver.fake_finish()
        f(cupy.asarray(image))
        assert owner() is None
        """
    )


@faked.without_a_device
def test_fake_driver_the_host_waits_when_too_much_is_kept(on_driver):
    on_driver(
        """
        f = reader(ab.cupy(copy=False))
        for _ in range(300):
            f(jax.array(image))
        assert any("synchronize event" in line for line in calls())
        """
    )


@faked.without_a_device
def test_fake_driver_the_end_of_the_interpreter_waits_for_what_is_kept(on_driver):
    on_driver(
        """
        import atexit, os

        def at_the_end():
            # An exception here would not change the exit status.
            if not any("synchronize event" in line for line in calls()):
                os._exit(1)

        atexit.register(at_the_end)
        reader(ab.cupy(copy=False))(jax.array(image))
        calls()
        """
    )


@faked.without_a_device
def test_fake_driver_a_jax_function_is_done_before_lent_memory_goes_back(on_driver):
    on_driver(
        """
        f = ab.jax(lambda x: x + 1)
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.tensor(image)
            f(x)
            del x
            torch.empty((2, 3))
        assert jax.LOG == ["block_until_ready"]
        """
    )


@faked.without_a_device
def test_fake_driver_a_framework_that_fails_does_not_fail_the_call_of_another_one(on_driver):
    on_driver(
        """
        torch.FAIL["current_stream"] = RuntimeError("the driver is too old")
        f = ab.cupy(lambda x: x + 1)
        assert (f(cupy.asarray(image)).get() == image + 1).all()
        with ab.thread_stream():
            assert (f(cupy.asarray(image)).get() == image + 1).all()
        """
    )


@faked.without_a_device
def test_fake_driver_a_function_is_called_on_another_device_than_the_current_one(on_driver):
    on_driver(
        """
        with cupy.cuda.Device(1):
            far = cupy.asarray(image)
            x = torch.tensor(image)
        with cupy.cuda.Stream(), torch.cuda.stream(torch.cuda.Stream(0)):
            assert ab.cupy(lambda x: x + 1)(far).device.id == 1
            reader(ab.jax(device="cuda:1"))(x)
            reader(ab.cupy(device="cuda:1"))(x)
        assert fake_cupy.current_device() == 0
        """
    )


@faked.without_a_device
def test_fake_driver_a_thread_stream_is_that_of_every_framework(on_driver):
    on_driver(
        """
        def handles():
            return cupy.cuda.get_current_stream().ptr, torch.cuda.current_stream().cuda_stream

        with ab.thread_stream(device=0) as stream:
            mine = handles()
            assert mine == (stream.__cuda_stream__()[1],) * 2 and mine[0] > 2
            with ab.thread_stream():
                assert handles() == mine
            assert handles() == mine
        assert handles() == (0, 0)
        with ab.thread_stream():
            assert handles() == mine
        theirs = []
        def work():
            with ab.thread_stream():
                theirs.append(handles())
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        assert theirs[0] != mine
        thread = threading.Thread(target=work)
        thread.start(); thread.join()
        assert theirs[0] == theirs[1], "the stream of a thread that ended is used again"
        """
    )


@faked.without_a_device
def test_fake_driver_a_thread_stream_is_ordered_with_what_is_around_it(on_driver):
    on_driver(
        """
        with cupy.cuda.Stream(non_blocking=True):
            x = cupy.asarray(image)
            with ab.thread_stream():
                y = x + 1
            z = y + 1
            assert (z.get() == image + 2).all()
        """
    )


@faked.without_a_device
def test_fake_driver_a_thread_streams_memory_is_not_used_again_too_early(on_driver):
    # Its memory is used on a stream that it was left to, and it is entered from another one.
    on_driver(
        """
        one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        with one:
            with ab.thread_stream():
                y = cupy.asarray(image)
            y + 1
            del y
        del one
        gc.collect()
        with other, ab.thread_stream():
            cupy.empty((2, 3), "float32")
        """
    )


@faked.without_a_device
def test_fake_driver_a_thread_stream_makes_its_device_current_before_its_stream(on_driver):
    on_driver(
        """
        with ab.thread_stream(device=1) as stream:
            assert fake_cupy.current_device() == 1
            # CuPy enters a stream on the device that is current.
            assert cupy.cuda.get_current_stream().ptr == stream.__cuda_stream__()[1]
            x = cupy.asarray(image)
            assert x.device.id == 1 and (x + 1).get().sum() == 21
        assert fake_cupy.current_device() == 0 and cupy.cuda.get_current_stream().ptr == 0
        with cupy.cuda.Device(1), ab.thread_stream(device=0):
            assert fake_cupy.current_device() == 0
        """
    )


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
        f"""
        target = {target!r}
        """
        + """
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            y = ab.convert(tf.constant(image) + 1, target, copy=False)
            z = y + 1
            read = z.get if target == "cupy" else z.cpu
            assert (read() == image + 2).all()
        """
    )


@faked.without_a_device
@pytest.mark.parametrize("source", ["cupy", "torch"])
def test_fake_driver_tensorflow_gets_memory_that_is_finished(on_driver, source):
    on_driver(
        f"""
        source = {source!r}
        """
        + """
        make = {"torch": torch.tensor, "cupy": cupy.asarray}[source]
        one, other = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(one), other:
            y = ab.convert(make(image) + 1, "tensorflow", copy=False)
            assert type(y) is tf.EagerTensor and ((y + 1).numpy() == image + 2).all()
        """
    )


@faked.without_a_device
def test_fake_driver_memory_of_tensorflow_is_kept_until_a_call_is_done(on_driver):
    on_driver(
        """
        f = reader(ab.cupy(copy=False))
        x = tf.constant(image)
        f(x)
        del x
        gc.collect()
        for _ in range(3):
            # It must not get the block, whose reader has not run yet.
            f(tf.constant(image))
        """
    )


@faked.without_a_device
def test_fake_driver_a_tensor_that_tensorflow_keeps_on_the_host_is_not_on_the_device(on_driver):
    on_driver(
        """
        assert tf.constant(image.astype("i4")).backing_device.endswith("CPU:0")
        try:
            ab.convert(image.astype("i4"), "tensorflow", device=1)
        except ab.DeviceUnavailableError as error:
            assert "TensorFlow" in str(error), error
        else:
            raise AssertionError("int32 is said to be on a device")
        x = ab.convert(image, "tensorflow", device=1)
        assert x.backing_device.endswith("GPU:1") and (x.numpy() == image).all()
        # DeepCopy has no kernel for uint8, whose copy lands on the host.
        given = tf.constant(image.astype("u1"))
        copy = ab.convert(given, "tensorflow", copy=True)
        assert copy.backing_device == given.backing_device, copy.backing_device
        """
    )


@faked.without_a_device
def test_fake_driver_tensorflow_gets_no_memory_that_is_not_aligned(on_driver):
    on_driver(
        """
        whole = torch.tensor(np.arange(65, dtype="f4"))
        view = torch.Tensor(whole._host[1:], 0)
        y = ab.convert(view, "tensorflow")
        assert ((y + 1).numpy() == np.arange(2, 66)).all()
        """
    )


@faked.without_a_device
def test_fake_driver_an_array_of_pyclesperanto_goes_to_another_device_through_the_host(on_driver):
    on_driver(
        """
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
        """
    )


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
