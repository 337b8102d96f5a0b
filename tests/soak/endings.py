"""Programs that end, fork or start an interpreter while threads convert, or run out of memory. Each
ends by itself.

python tests/soak/endings.py NAME SECONDS
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

FRAMEWORKS = ("numpy", "torch")
IMAGE = np.arange(4096, dtype="float32").reshape(64, 64)


END = threading.Event()
KEPT: list[object] = []


def convert_until_the_end() -> None:
    import arraybridge as ab

    declared = ab.torch(output_type="input")(lambda image: image)
    while not END.is_set():
        for target in FRAMEWORKS:
            made = ab.convert(IMAGE, target, copy=True)
            assert float(made[63, 63]) == 4095
        KEPT[:] = [made, declared(IMAGE), ab.Tensor(IMAGE)]
        assert (KEPT[1] == IMAGE).all()


def start(threads: int) -> list[threading.Thread]:
    # CPython before 3.14 ends a daemon thread in the middle of a call, and so the process.
    started = [threading.Thread(target=convert_until_the_end) for _ in range(threads)]
    for thread in started:
        thread.start()
    return started


def shutdown(seconds: float) -> None:
    """The main thread ends before the threads do, and their results stay until the very end."""
    import torch  # noqa: F401

    start(8)
    threading.Timer(seconds, END.set).start()


def fork(seconds: float) -> None:
    """Forked processes convert, while the threads of their parent do."""
    import arraybridge as ab
    import torch  # noqa: F401

    # A child that is forked while another thread imports a framework may wait for that thread.
    for target in FRAMEWORKS:
        ab.convert(IMAGE, target, copy=True)
    started = start(4)
    deadline = time.monotonic() + seconds
    count = 0
    while time.monotonic() < deadline or not count:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            for target in FRAMEWORKS:
                assert float(ab.convert(IMAGE, target, copy=True)[63, 63]) == 4095
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            break
        count += 1
    END.set()
    for thread in started:
        thread.join()
    assert status == 0, f"a child ended with {status}"


def interpreter(seconds: float) -> None:
    """Another interpreter imports the package: it works, or that is an ImportError."""
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters

    code = """if True:
        try:
            import warnings
            warnings.simplefilter("ignore")
            import numpy as np, arraybridge as ab
        except ImportError as error:
            assert str(error)
        else:
            x = np.arange(3)
            assert ab.convert(x[::-1], "numpy", copy=True).tolist() == [2, 1, 0]
    """
    deadline = time.monotonic() + seconds
    count = 0
    while time.monotonic() < deadline or not count:
        other = interpreters.create()
        failed = interpreters.run_string(other, code)
        assert failed is None, failed
        interpreters.destroy(other)
        count += 1


def deleters(seconds: float) -> None:
    """Memory is freed by a thread that holds no interpreter lock."""
    import arraybridge as ab

    class Managed(ctypes.Structure):
        _fields_ = [
            ("tensor", ctypes.c_byte * 48),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ]

    pointer, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = b"used_dltensor"

    def free() -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            capsule = ab.Tensor(IMAGE.copy()).__dlpack__()
            address = pointer(capsule, b"dltensor")
            rename(capsule, used)
            # ctypes releases the interpreter lock for the call.
            Managed.from_address(address).deleter(address)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: free(), range(8)))


def memory(seconds: float) -> None:
    """Allocations of Python's fail at random. The error says so, and the next call is right."""
    import _testcapi

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    import entries

    # PyO3 reports what it drops.
    sys.unraisablehook = lambda *_: None
    calls = [call for name, call in entries.CALLS.items() if name not in entries.OTHERS]
    choices, failed = random.Random(1), 0
    for call in calls:
        call()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        call, number = choices.choice(calls), choices.randrange(1, 100)
        _testcapi.set_nomemory(number, number + 1)
        try:
            call()
        except MemoryError:
            failed += 1
        finally:
            _testcapi.remove_mem_hooks()
        assert (entries.PLUS(IMAGE) == IMAGE + 1).all()
    assert failed > 10, failed


PROGRAMS = {f.__name__: f for f in (shutdown, fork, interpreter, deleters, memory)}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PROGRAMS[sys.argv[1]](float(sys.argv[2]))
