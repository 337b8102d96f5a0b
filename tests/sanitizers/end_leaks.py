"""A plugin of pytest that looks for leaks while the interpreter still has its objects.

At exit CPython and the libraries of the frameworks leave memory behind that nothing points to any
more, and what hides it would hide lost capsules and arrays too. Run as a program, it loses a
capsule and fails if that is not seen.
"""

import ctypes
import gc
import os
import sys


def is_leaking() -> bool:
    gc.collect()
    sys.stdout.flush()
    return bool(ctypes.CDLL(None).__lsan_do_recoverable_leak_check())


def pytest_unconfigure() -> None:
    if is_leaking():
        os._exit(23)


def lose_a_capsule() -> None:
    import arraybridge
    import numpy

    capsule = arraybridge.Tensor(numpy.zeros((16, 16))).__dlpack__()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))


if __name__ == "__main__":
    lose_a_capsule()
    sys.exit(None if is_leaking() else "LeakSanitizer did not see a lost capsule")
