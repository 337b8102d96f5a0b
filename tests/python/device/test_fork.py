"""What works in a forked process, and what is said about what does not.

CUDA does not work in a process that was forked after it had been initialized. The fake driver and
the fake frameworks of tests/fakes behave as their models do then. They show what is called in the
child, and are no evidence that anything works with a GPU. Each test ends by itself: a child that
hangs is ended, and fails the test.
"""

import os
import textwrap

import bridges
import faked
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


IN_A_CHILD = """
import os, signal, sys, traceback, warnings
from bridges import raises

def in_a_child(function):
    "Runs a function in a forked process, which then ends as any other one. A hang is a failure."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            function()
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"

WAY_OUT = "forked after CUDA had been initialized", "spawn", "forkserver"
"""


def survives(code, *arguments):
    bridges.survives(IN_A_CHILD + textwrap.dedent(code), *arguments)


def test_conversions_and_casts_work_in_a_child_of_a_process_that_used_threads():
    bridges.need("torch")
    survives("""
        import numpy as np, torch, arraybridge as ab
        # Large enough for several threads.
        large = np.arange(1 << 20, dtype="f4").reshape(1024, 1024).T

        def convert():
            for target in ("torch", "numpy"):
                y = ab.convert(large, target, dtype="float64", copy=True)
                assert float(y[7, 5]) == large[7, 5]
            x = torch.arange(6.0)
            assert np.shares_memory(ab.convert(x, "numpy"), x.numpy())
            double = ab.torch(lambda image: image * 2)
            assert (double(np.arange(6.0)) == torch.arange(6.0) * 2).all()

        convert()
        in_a_child(convert)
        # And in the child of a child.
        in_a_child(lambda: in_a_child(convert))
        """)


def test_slices_do_not_wait_for_threads_that_a_child_does_not_have():
    """OpenMP's threads are not there in a child, and torch waits for them when it copies."""
    bridges.need("torch")
    survives("""
        import numpy as np, torch, arraybridge as ab
        stack = torch.arange(8 * 512 * 512.0).reshape(8, 512, 512)
        double = ab.torch(lambda image: torch.from_numpy(image.numpy() * 2))

        def slice_by_slice():
            result = double(stack, slice_by_slice=True)
            assert np.array_equal(result.numpy(), stack.numpy() * 2)

        slice_by_slice()
        stack.clone()
        in_a_child(slice_by_slice)
        """)


def test_a_child_is_forked_while_other_threads_are_at_work():
    survives("""
        import threading
        import numpy as np, arraybridge as ab
        image = np.arange(1 << 18, dtype="f4").reshape(512, 512).T
        ended = threading.Event()

        def work():
            while not ended.is_set():
                ab.convert(image, "numpy", dtype="float64", copy=True)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                in_a_child(lambda: ab.convert(image, "numpy", dtype="float64", copy=True))
        finally:
            ended.set()
        """)


@pytest.fixture
def forks(on_driver):
    """Runs a program on the fake driver that forks."""
    return lambda code: on_driver(IN_A_CHILD + textwrap.dedent(code))


@faked.without_a_device
def test_fake_driver_what_needs_cuda_says_why_it_does_not_work(forks):
    forks("""
        x, far = cupy.asarray(image), torch.tensor(image)
        shared = ab.convert(x, "torch")

        def child():
            calls()
            # Host memory that should go to the device.
            for target in ("cupy", "torch", "tensorflow"):
                convert = lambda: ab.convert(image, target, device=0)
                raises(ab.DeviceUnavailableError, convert, *WAY_OUT)
            declared = ab.cupy(lambda image: image)
            raises(ab.DeviceUnavailableError, lambda: declared(image), *WAY_OUT)
            # Arrays of the parent, which are still known to be on its device.
            assert ab.explain(far, "torch").device == "accelerator:0"
            for array in (x, far, shared):
                raises(ab.MemoryConversionError, lambda: ab.convert(array, "numpy"), *WAY_OUT)
            raises(RuntimeError, lambda: ab.thread_stream().__enter__(), *WAY_OUT)
            assert not violations() and not calls()

        in_a_child(child)
        # The parent goes on.
        assert (ab.convert(x, "numpy") == image).all()
        """)


def test_a_process_that_never_used_cuda_has_not_lost_it_in_a_child():
    survives("""
        import arraybridge as ab

        def child():
            try:
                ab.thread_stream().__enter__()
            except RuntimeError as error:
                assert "forked" not in str(error), error

        in_a_child(child)
        """)


@faked.without_a_device
def test_fake_driver_a_stream_of_the_thread_is_left_alone(forks):
    forks("""
        with ab.thread_stream():
            x = cupy.asarray(image)

        def child():
            calls()
            raises(RuntimeError, lambda: ab.thread_stream().__enter__(), *WAY_OUT)
            assert not calls() and not violations()

        in_a_child(child)
        with ab.thread_stream():
            assert (cupy.asarray(image).get() == image).all()
        """)


@faked.without_a_device
def test_fake_driver_what_is_kept_until_a_call_is_done_is_left_to_the_parent(forks):
    forks("""
        import atexit, weakref
        f = reader(ab.cupy(copy=False))
        x = tf.constant(image)
        owner = weakref.ref(x._host.base)

        def at_the_end():
            # It runs after what arraybridge registers later. An exception would not be seen.
            if os.getpid() != parent and (owner() is None or calls() or violations()):
                os._exit(1)

        parent = os.getpid()
        atexit.register(at_the_end)
        f(x)
        del x
        gc.collect()

        def child():
            calls()
            assert (ab.convert(image, "numpy", copy=True) == image).all()

        in_a_child(child)
        driver.fake_finish()
        f(cupy.asarray(image))
        assert owner() is None
        """)


@faked.without_a_device
def test_fake_driver_the_host_is_used_where_the_declaration_allows_it(forks):
    bridges.need("torch")
    forks("""
        for name in ("torch", "torch.cuda"):
            sys.modules.pop(name)
        import torch
        torch.cuda.device_count = lambda: 1

        def child():
            assert ab.torch(lambda image: image.device.type)(image) == "cpu"
            warnings.simplefilter("error")
            convert = lambda: ab.convert_memory(image, "numpy", "torch", gpu_id=0)
            warning = raises(ab.NoAcceleratorWarning, convert, *WAY_OUT)
            assert "gpu_id is ignored" in str(warning)
            warnings.simplefilter("ignore")
            assert convert().device.type == "cpu"
            assert (ab.convert(torch.ones(3), "numpy") == 1).all()

        # The parent has a device, as far as torch knows.
        assert ab.explain(image, "torch", device=0).device == "accelerator:0"
        in_a_child(child)
        """)


FIRST_CALLS = ["convert", "a cast", "a call", "input_dtype", "slices", "tiles", "a tree", "trace"]


def test_a_child_that_is_forked_during_a_first_call_makes_it_itself():
    """Each first call is made in a process of its own, which forks while a thread makes it."""
    survives(
        """
        import threading, time
        import entries

        def fork_beside(call):
            ended = threading.Event()
            threading.Thread(target=lambda: (call(), ended.set())).start()
            while not ended.wait(0.0003):
                in_a_child(call)

        for name in sys.argv[1:]:
            in_a_child(lambda: fork_beside(entries.CALLS[name]))
        """,
        *FIRST_CALLS,
    )
