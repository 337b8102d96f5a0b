"""Threads that are at work when the interpreter ends."""

import subprocess
import sys

import pytest

BEFORE = """
import asyncio, threading, time
import numpy as np, arraybridge as ab

cube = np.zeros((8, 4, 4), "float32")

def work(x):
    for _ in range(3):
        time.sleep(0.001)
    return x
"""

AFTER = """
def forever():
    while True:
        entry()

for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.03)
"""

ENTRIES = {
    "call": "f = ab.numpy(work)\nentry = lambda: f(cube)",
    "keyword": "f = ab.numpy(work)\nentry = lambda: f(x=cube)",
    "object": """
class Callable:
    def __call__(self, x):
        return work(x)
f = ab.numpy(Callable())
entry = lambda: f(cube)
""",
    "slices": "f = ab.numpy(slice_by_slice=True)(work)\nentry = lambda: f(cube)",
    "tiles": "f = ab.numpy(tiles=(2, 2))(work)\nentry = lambda: f(cube)",
    "workers": "f = ab.numpy(tiles=(2, 2), workers=2)(work)\nentry = lambda: f(cube)",
    "generator": """
@ab.numpy
def f(x):
    for _ in range(5):
        time.sleep(0.001)
        yield x
entry = lambda: list(f(cube))
""",
    "coroutine": """
@ab.numpy
async def f(x):
    work(x)
    return x
def entry():
    try:
        f(cube).send(None)
    except StopIteration:
        pass
""",
    "convert": """
class Like:
    def __array__(self, dtype=None, copy=None):
        return work(cube)
entry = lambda: ab.convert(Like(), "numpy")
""",
    "process_slices": "entry = lambda: ab.process_slices(cube, work)",
    "Tensor": """
class Like:
    def __dlpack__(self, **keywords):
        return work(cube).__dlpack__(**keywords)
    def __dlpack_device__(self):
        return cube.__dlpack_device__()
entry = lambda: ab.Tensor(Like())
""",
}

RUNS, AT_ONCE = 20, 5


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_daemon_thread_does_not_end_the_process(entry):
    program = [sys.executable, "-c", BEFORE + entry + AFTER]
    for _ in range(RUNS // AT_ONCE):
        runs = [subprocess.Popen(program, stderr=subprocess.PIPE) for _ in range(AT_ONCE)]
        errors = [run.communicate(timeout=60)[1].decode() for run in runs]
        assert [run.returncode for run in runs] == [0] * AT_ONCE, errors
