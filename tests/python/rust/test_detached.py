"""Rust functions that let other threads run, and that can be interrupted."""

import contextlib
import inspect
import signal
import subprocess
import sys
import threading
import time

import arraybridge as ab
import bridges
import numpy as np
import pytest

LARGE = np.ones((512, 512), "float32")
SMALL = np.ones((3, 5), "float32")


@contextlib.contextmanager
def at_gate(ext, call):
    """A call in another thread, while it waits at the gate. The list has its result at the end."""
    results = []

    def run():
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001
            results.append(error)

    ext.close_gate()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        # If the call held the interpreter, this loop would wait until the gate's time is over.
        while not ext.at_gate() and thread.is_alive():
            time.sleep(0.001)
        yield results
    finally:
        ext.open_gate()
        thread.join()


CALLS = {
    "a view": lambda ext, array: ext.sums_at_gate(array),
    "a tensor": lambda ext, array: ext.tensor_at_gate(array),
    "a list": lambda ext, array: ext.list_at_gate([None, array]),
    "an element type": lambda ext, array: ext.generic_at_gate(array),
}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("image", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("call", CALLS)
def test_others_write_to_an_array_while_a_detached_function_works_on_a_copy(
    ext, framework, image, call
):
    array = bridges.make(framework, image.copy())
    with at_gate(ext, lambda: CALLS[call](ext, array)) as results:
        assert ext.at_gate() and not results
        array[...] = 7
    assert results == [(image.size, image.size)]


@pytest.mark.parametrize("change", ["cast", "reversed", "byte order", "misaligned", "read-only"])
def test_an_array_that_is_copied_anyway_is_copied_before_others_run(ext, change):
    base = np.ones(2 * LARGE.size + 1, "float32")
    array = {
        "cast": lambda: LARGE.astype("float64"),
        "reversed": lambda: base[::-2],
        "byte order": lambda: LARGE.astype(">f4"),
        "misaligned": lambda: base.view("uint8")[1:-3].view("float32"),
        "read-only": lambda: LARGE.copy(),
    }[change]()
    if change == "misaligned":
        array[...] = 1
    shown = array
    if change == "read-only":
        shown = array.view()
        shown.flags.writeable = False
    with at_gate(ext, lambda: ext.sums_at_gate(shown)) as results:
        assert ext.at_gate() and not results
        array[...] = 7
    assert results == [(array.size, array.size)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_python_code_writes_to_an_array_while_it_is_copied(ext, dtype):
    # Other threads would have the time for thousands of rounds while this many elements are copied.
    data = np.zeros(1 << 24, dtype)
    done = threading.Event()

    def write():
        number = 0
        while not done.is_set():
            number += 1
            data[0] = number
            data[-1] = number

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            first, last = ext.ends_detached(data)
            assert first - last in (0, 1)
    finally:
        done.set()
        thread.join()


def test_only_arrays_that_others_could_write_to_are_copied(ext):
    for framework in ("jax", "tensorflow"):
        if framework in bridges.INSTALLED:
            array = bridges.make(framework, LARGE)
            with ab.trace() as copies:
                attached, place = ext.place_of_copy(array)
            assert not attached and not list(copies), framework
            assert place == ext.place_of_copy(array)[1], framework
    for array in (LARGE, SMALL, LARGE[::2], ab.Tensor(LARGE)):
        with ab.trace() as copies:
            attached, place = ext.place_of_copy(array)
        assert not attached and place != LARGE.ctypes.data
        (copy,) = copies
        assert copy.route == "copy"
        assert "runs detached from the interpreter" in copy.why
    # There is nothing to copy.
    with ab.trace() as copies:
        assert not ext.place_of_copy(LARGE[:0])[0] and not ext.place_of_copy()[0]
    assert not list(copies)


def test_an_array_is_copied_once(ext):
    with ab.trace() as copies:
        ext.close_gate()
        ext.open_gate()
        assert ext.sums_at_gate(SMALL.astype("float64")) == (15, 15)
    (copy,) = copies
    assert copy.why == "the dtype changes"


def test_no_copy_refuses_the_copy_for_a_detached_function(ext):
    with ab.no_copy():
        for call in (ext.place_of_copy, ext.tensor_at_gate):
            with pytest.raises(ab.CopyRequiredError, match="'image'.*detached") as caught:
                call(LARGE)
            assert "no_copy()" in str(caught.value)
        if "jax" in bridges.INSTALLED:
            assert not ext.place_of_copy(bridges.make("jax", LARGE))[0]


def test_a_copy_is_not_claimed_but_the_array_is_while_it_is_copied(ext):
    array = LARGE.copy()
    with at_gate(ext, lambda: ext.sums_at_gate(array)) as results:
        ext.touch(SMALL, array)  # writes to it
    assert results == [(LARGE.size, LARGE.size)] and array[0, 0] == 2

    def read():
        with pytest.raises(ab.AliasedArgumentError, match=r"place_of_copy\(\) reads 'image'"):
            ext.place_of_copy(array)

    ext.during(SMALL, read, array)
    assert not ext.place_of_copy(array)[0]


def test_bools_of_a_copy_are_checked(ext):
    mask = np.array([True, False, True])
    assert ext.count_detached(mask) == (False, 2)
    mask.view("uint8")[1] = 2
    with pytest.raises(TypeError, match="'mask'"):
        ext.count_detached(mask)


def test_errors_and_panics_of_a_detached_function_are_exceptions(ext):
    data = LARGE.ravel()
    with pytest.raises(ab.RustPanicError, match=r"panics_detached\(\) panicked at .*: index"):
        ext.panics_detached(data)
    with pytest.raises(ValueError, match="262144 elements are too many"):
        ext.fails_detached(data)
    with pytest.raises(TypeError, match="'data': expected a 1-dimensional"):
        ext.fails_detached(LARGE)
    # The thread is attached again, and nothing is claimed.
    ext.touch(SMALL, data)


# --- interrupts

PROGRAM = """
import signal, sys, threading
import bridges, numpy as np
ext = bridges.module(sys.argv[1])
image = np.ones((64, 64), "float32")

class Expired(Exception):
    pass

def expire(*_):
    raise Expired("the time is over")

def watch(call):
    print("ready", flush=True)
    try:
        print("returned", call())
    except BaseException as error:
        print(type(error).__name__, error)
    print(ext.total(image))  # The interpreter is as it was.
"""


def interrupted(ext, code: str) -> list[str]:
    """What a program prints that gets Ctrl-C while a function runs."""
    done = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, ext.__file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bridges.environment(),
    )
    try:
        assert done.stdout.readline() == "ready\n", done.communicate(timeout=60)[1]
        time.sleep(0.3)
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=50)
    finally:
        done.kill()
        done.wait()
    assert done.returncode == 0, err
    return out.splitlines()


def printed(ext, code):
    """The lines that the program prints with this code."""
    return bridges.survives(PROGRAM + code, ext.__file__).splitlines()


POLLING = ("poll_detached", "poll_attached")
needs_signals = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="the system has no interval timers"
)


@needs_signals
@pytest.mark.parametrize("function", POLLING)
@pytest.mark.parametrize("in_threads", [False, True])
@pytest.mark.parametrize("then", ["raise", "return", "fail"])
def test_ctrl_c_ends_a_function_that_polls_whatever_it_returns(ext, function, in_threads, then):
    code = f"watch(lambda: ext.{function}(image, then={then!r}, in_threads={in_threads}))"
    assert interrupted(ext, code) == ["KeyboardInterrupt ", "4096.0"]


@needs_signals
@pytest.mark.parametrize("function", POLLING)
@pytest.mark.parametrize("in_threads", [False, True])
def test_what_the_handler_of_a_signal_raises_ends_a_function(ext, function, in_threads):
    code = f"""
signal.signal(signal.SIGALRM, expire)
signal.setitimer(signal.ITIMER_REAL, 0.2)
watch(lambda: ext.{function}(image=image, then="raise", in_threads={in_threads}))
"""
    assert printed(ext, code) == ["ready", "Expired the time is over", "4096.0"]


@needs_signals
def test_a_handler_that_raises_nothing_ends_nothing(ext):
    code = """
calls = []
def count(*_):
    calls.append(len(calls))
    if len(calls) == 4:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Expired(calls)
signal.signal(signal.SIGALRM, count)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
watch(lambda: ext.poll_detached(image, "raise"))
"""
    assert printed(ext, code) == ["ready", "Expired [0, 1, 2, 3]", "4096.0"]


@needs_signals
def test_an_interrupt_is_raised_after_a_panic(ext):
    code = """
try:
    watch(lambda: ext.poll_detached(image, "panic"))
    # Python raises it when it runs its next code.
    for _ in range(100):
        pass
except KeyboardInterrupt:
    print("interrupted")
"""
    assert interrupted(ext, code)[-1] == "interrupted"


def test_only_the_main_thread_is_interrupted(ext):
    code = """
done = []
thread = threading.Thread(target=lambda: done.append(ext.poll_detached(image, "raise")))
thread.daemon = True
thread.start()
watch(thread.join)
print(done, flush=True)
import os
os._exit(0)
"""
    assert interrupted(ext, code) == ["KeyboardInterrupt ", "4096.0", "[]"]


def test_watched_work_gives_its_result_or_its_panic(ext):
    assert ext.watched(False) == 7
    with pytest.raises(ab.RustPanicError, match="the work failed"):
        ext.watched(True)


def test_python_sees_no_interrupt(ext):
    assert list(inspect.signature(ext.poll_attached).parameters)[:2] == ["image", "then"]
    with pytest.raises(TypeError, match="interrupt"):
        ext.poll_attached(SMALL, "raise", interrupt=1)


def test_bools_are_copied_where_handlers_may_run(ext):
    mask = np.array([True, False])
    assert ext.mask_of_a_long_function(mask) != mask.ctypes.data
