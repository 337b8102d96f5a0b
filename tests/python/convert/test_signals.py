"""What the handler of a signal raises reaches the caller, whatever a conversion was doing."""

import functools
import os
import signal

import arraybridge
import bridges
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="the system has no interval timers"
)


class Expired(Exception):
    """What a time limit raises."""


FIRED = []


def expire(*_):
    FIRED.append(True)
    raise Expired


class Limit:
    def method(self, *_):
        expire()

    def __call__(self, *_):
        expire()


HANDLERS = {
    "function": expire,
    "partial": functools.partial(expire, 1),
    "method": Limit().method,
    "object": Limit(),
}


def repeat_until_fired(call):
    while not FIRED:
        call()
    call()  # It may be raised a little later.


def is_ended(call, seconds):
    """Whether a time limit ends repeated calls. Errors of theirs are raised."""
    FIRED.clear()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        # A function of its own: in CPython 3.13.0, what is raised at the end of a loop's round
        # passes by the handlers around the loop.
        repeat_until_fired(call)
    except Expired:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


@pytest.fixture
def handle():
    before = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGALRM, before)


def calls():
    bridges.need("torch", "jax", "tensorflow")
    array = np.ones((8, 8), "float32")
    torch, jax, tensorflow = (bridges.make(name, array) for name in ("torch", "jax", "tensorflow"))
    convert = arraybridge.convert
    return {
        "torch -> jax": lambda: convert(torch, "jax"),
        "numpy -> jax": lambda: convert(array, "jax"),
        "tensorflow -> jax": lambda: convert(tensorflow, "jax"),
        "jax -> tensorflow": lambda: convert(jax, "tensorflow"),
        "a cast in tensorflow": lambda: convert(tensorflow, "tensorflow", dtype="uint8"),
        "a stack": lambda: arraybridge.stack_slices([tensorflow, tensorflow], "tensorflow"),
    }


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_time_limit_ends_a_conversion_wherever_it_is(handle, kind):
    handle(HANDLERS[kind])
    for name, call in calls().items():
        call()
        missed = sum(not is_ended(call, 0.0004 + 0.00003 * n) for n in range(25))
        assert missed == 0, name


def test_a_deferred_interrupt_comes_before_an_error_of_ours():
    """Python raises it later otherwise, wherever it is by then."""
    bridges.survives("""
        import numpy as np, arraybridge

        class Image(np.ndarray):
            left = 0

            @property
            def shape(self):
                Image.left -= 1
                if Image.left < 0:
                    raise KeyboardInterrupt
                return (3,)

        image, interrupted = np.zeros(3).view(Image), 0
        for times in range(9):
            Image.left = times
            try:
                arraybridge.stack_slices([image], "numpy")
            except KeyboardInterrupt as interrupt:
                assert interrupt.__context__ is None
                interrupted += 1
            except ValueError:
                break
        # The last time is for the message.
        assert interrupted == times > 1
        """)


def test_a_handler_that_ends_the_process_does():
    bridges.need("torch", "jax")
    for _ in range(3):
        done = bridges.python(
            """
            import signal
            import bridges
            bridges.load("numpy", "torch", "jax")
            import arraybridge, torch

            def leave(*_):
                raise SystemExit(7)

            signal.signal(signal.SIGALRM, leave)
            tensor = torch.ones(8, 8)
            arraybridge.convert(tensor, "jax")
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            for _ in range(1_000_000):
                arraybridge.convert(tensor, "jax")
            """,
            loaded=("jax", "torch"),
        )
        assert done.returncode == 7, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_what_a_handler_raises_during_a_first_call_comes_out():
    """Each first call is made in a fork of a process that has made none."""
    bridges.survives("""
        import os, signal, sys
        import entries

        class Expired(Exception): pass

        def expire(*_):
            raise Expired

        def outcome(call, where, at):
            lines = 0

            def trace(frame, *_):
                nonlocal lines
                # CPython drops what the callbacks of weak references raise.
                is_dropped = frame.f_code.co_name in ("remove", "cb")
                lines += where in frame.f_code.co_qualname and not is_dropped
                if lines == at:
                    lines += 1
                    signal.raise_signal(signal.SIGALRM)
                return trace

            sys.settrace(trace)
            try:
                call()
                raised = None
            except BaseException as error:
                raised = error
            sys.settrace(None)
            call()
            return 0 if lines < at else 1 if isinstance(raised, Expired) else repr(raised)

        signal.signal(signal.SIGALRM, expire)
        reached = 0
        # rust-numpy asks for NumPy's version first. The others are lines of all that runs.
        places = [("NumpyVersion", 1), ("NumpyVersion", 8)]
        places += [("", at) for at in range(1, 900, 47)]
        for name, call in entries.CALLS.items():
            for where, at in places:
                child = os.fork()
                if not child:
                    signal.alarm(60)
                    result = outcome(call, where, at)
                    if isinstance(result, str):
                        print(name, where, at, result, file=sys.stderr, flush=True)
                    os._exit(result if isinstance(result, int) else 2)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert code in (0, 1), (name, where, at, code)
                reached += code
        print(reached, len(entries.CALLS))
        assert reached > 12 * len(entries.CALLS), reached
        """)
