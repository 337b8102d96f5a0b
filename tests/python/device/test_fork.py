"""What works in a forked process. What does not is in tests/simulated_cuda.

Each test ends by itself: a child that hangs is ended, and fails the test.
"""

import os
import textwrap

import bridges
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


IN_A_CHILD = """
import os, signal, sys, traceback, warnings

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
