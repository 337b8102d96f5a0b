"""Threads that are at work when the interpreter ends."""

import bridges
import pytest

BEFORE = """
import asyncio, gc, os, signal, sys, threading, time
import numpy as np, arraybridge as ab

cube = np.zeros((8, 4, 4), "float32")

def work(x):
    for _ in range(3):
        time.sleep(0.001)
    return x

class Like:
    def __array__(self, dtype=None, copy=None):
        return work(cube[0])
"""

# Each process is a fork of one that has imported the modules, so that it takes no second to start.
# At its end, no garbage is looked for among what was imported, which would take most of its time.
# What its threads raise at the end is not printed: Python ends a process whose threads write to the
# standard error output while it ends.
AFTER = """
def forever():
    while True:
        entry()

gc.collect()
gc.freeze()
for _ in range(RUNS // AT_ONCE):
    children = []
    for _ in range(AT_ONCE):
        child = os.fork()
        if not child:
            signal.alarm(60)
            raised = []
            threading.excepthook = lambda error: raised.append(error.exc_type)
            for _ in range(4):
                threading.Thread(target=forever, daemon=True).start()
            time.sleep(0.03)
            # What is raised from here on may come of the end.
            sys.exit(len(raised))
        children.append(child)
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ", flush=True)
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
entry = lambda: ab.convert(Like(), "numpy")
""",
    "process_slices": "entry = lambda: ab.process_slices(cube, work)",
    "stack": "entry = lambda: ab.stack_slices([Like(), Like()], 'numpy')",
    "unstack": """
class Stack:
    def __array__(self, dtype=None, copy=None):
        return work(cube)
entry = lambda: ab.unstack_slices(Stack(), 'numpy')
""",
    "explain": "entry = lambda: ab.explain(Like(), 'numpy')",
    "tree": "entry = lambda: ab.convert_tree({'a': [Like()]}, 'numpy')",
    "Tensor": """
class Exporter:
    def __dlpack__(self, **keywords):
        return work(cube).__dlpack__(**keywords)
    def __dlpack_device__(self):
        return cube.__dlpack_device__()
entry = lambda: ab.Tensor(Exporter())
""",
    "copy of a Tensor": """
tensor = ab.Tensor(np.zeros((1024, 1024), "float32"))
entry = lambda: tensor.__dlpack__(copy=True)
""",
    # From here on, no entry has an array that the thread could have been noticed by.
    "decorator": """
class Callable:
    @property
    def __signature__(self):
        raise AttributeError(work("__signature__"))
    def __call__(self, x):
        return x
function = Callable()
entry = lambda: ab.numpy(function)
""",
    "memory_types": "entry = lambda: ab.memory_types('numpy', 'numpy')(lambda x: x)",
    "pickle": """
from arraybridge._core import _declare
entry = lambda: _declare(lambda x: x, "numpy", {})
""",
    "policy": """
class Member:
    @property
    def value(self):
        return work("default")
member = Member()
entry = lambda: ab.dtype_policy(member)
""",
    "progress": """
def entry():
    with ab.progress():
        pass
""",
    "recovery": """
from arraybridge._core import execute_with_oom_recovery
entry = lambda: execute_with_oom_recovery(lambda: work(0), "numpy")
""",
    "observer": """
from arraybridge._core import _gathered
entry = lambda: _gathered(lambda: work(0))
""",
    "wrapper": """
from arraybridge._core import _within
entry = lambda: _within("a", lambda: work(0))
""",
}

FRAMEWORKS = {
    "torch": """
import torch
f = ab.torch(output_type="input")(work)
entry = lambda: f(cube)
""",
    "torch, backward": """
import torch
f = ab.torch(work)
leaf = torch.zeros(3, requires_grad=True)
leaf.register_hook(ab.torch(work))
entry = lambda: f(leaf).sum().backward()
""",
    "torch, gradients of another framework": """
import torch

@ab.numpy(output_type="input")
def f(x):
    return work(x) * 2
f.defvjp(lambda x: (work(x) * 2, None), lambda needed, gradient: work(gradient) * 2)
leaf = torch.zeros(3, requires_grad=True)
entry = lambda: f(leaf).sum().backward()
""",
    "jax": """
import jax
f = ab.jax(output_type="input")(work)
entry = lambda: f(cube)
""",
}

RUST = {
    "attached": "entry = lambda: extension.sum_after(cube, lambda: work(0))",
    "in slices": "entry = lambda: extension.turned_slices(cube)",
    "like an array": "entry = lambda: extension.total(Like())",
    "detached": """
mask = np.zeros((2048, 2048), bool)
entry = lambda: extension.count_detached(mask)
""",
    "long": """
image = cube[0]
entry = lambda: extension.poll_detached(image, "return")
""",
    "long, in threads": """
image = cube[0]
entry = lambda: extension.poll_detached(image, "return", in_threads=True)
""",
}
EXTENSION = """
import importlib.util
spec = importlib.util.spec_from_file_location("extension", sys.argv[1])
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
"""

RUNS, AT_ONCE = 20, 5


def ends(code: str, *arguments: str, loaded=()) -> None:
    """Run the entry in daemon threads of processes that end. Each must exit with status 0."""
    program = f"{BEFORE}{code}\nRUNS, AT_ONCE = {RUNS}, {AT_ONCE}\n{AFTER}"
    done = bridges.python(program, *arguments, loaded=loaded)
    assert done.stdout.split() == ["0"] * RUNS, done.stdout + done.stderr


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_daemon_thread_does_not_end_the_process(entry):
    ends(entry)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_daemon_thread_in_a_framework_does_not_end_the_process(name):
    framework = name.partition(",")[0]
    bridges.need(framework)
    ends(FRAMEWORKS[name], loaded=[framework])


@pytest.mark.parametrize("entry", RUST.values(), ids=RUST)
def test_a_daemon_thread_in_a_rust_function_does_not_end_the_process(ext, entry):
    ends(EXTENSION + entry, ext.__file__)
