"""Conversions that crash the process if they are done naively.

Each runs in a separate process, which must exit normally.
"""

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge import _isolate

PREFACE = "import numpy as np, arraybridge as ab\n"


def survives(code, *names):
    """Run code in a process that has loaded the given frameworks."""
    return bridges.survives(PREFACE + textwrap.dedent(code), loaded=names)


@bridges.alone
def test_tensorflow_can_compute_on_memory_that_was_not_aligned(tf, torch):
    sources = [torch.ones(1025)[1:], torch.ones(1028)[4:]]
    for offset in (1, 4, 16, 32):
        sources.append(bridges.aligned(np.arange(1024, dtype="f4"), offset))
    sources += [torch.from_numpy(a) for a in sources[3:]]
    operations = [
        tf.reduce_sum, tf.round, tf.abs, lambda v: v + v, lambda v: v[1:],
        lambda v: tf.stack([v, v]), lambda v: tf.cast(v, tf.int32),
        lambda v: tf.matmul(tf.reshape(v, (32, 32)), tf.reshape(v, (32, 32))),
        tf.function(lambda v: v * 2 + 1, jit_compile=True),
    ]  # fmt: skip
    for a, copy in itertools.product(sources, (None, True)):
        print(type(a), np.asarray(a).ctypes.data % 64, copy, flush=True)
        x = ab.convert(a, "tensorflow", copy=copy)
        for operation in operations:
            np.asarray(operation(x))


ORDERS = [
    "import tensorflow",
    "import tensorflow, torch, jax",
    "import arraybridge, tensorflow",
    "import torch, tensorflow",
]


@pytest.mark.parametrize("first", ORDERS)
def test_opencl_can_be_enumerated_after_tensorflow_was_loaded(tf, cle, torch, jax, first):
    bridges.survives(f"""
        {first}
        import numpy as np, arraybridge as ab
        image = np.arange(12, dtype="u2").reshape(3, 4)
        x = ab.convert(image, "pyclesperanto")
        import pyclesperanto as cle
        y = cle.gaussian_blur(x, sigma_x=1, sigma_y=1)
        assert ab.convert(y, "tensorflow").shape == (3, 4)
        assert (ab.convert(x, "numpy") == image).all()
        """)


EVERY = ("tensorflow", "torch", "jax", "pyclesperanto")
# Each framework before and after each other one. ARRAYBRIDGE_ALL_ORDERS=1 takes every order.
SOME_ORDERS = [EVERY, EVERY[::-1]]
ALL_ORDERS = list(itertools.permutations(EVERY))
USE_EACH = """
import importlib.util, sys
import numpy as np, arraybridge as ab
image = np.arange(12, dtype="f4").reshape(3, 4)
for name in sys.argv[1:]:
    x = ab.convert(image, name)
    assert np.array_equal(ab.convert(x + x, "numpy"), image * 2), name
if importlib.util.find_spec("triton"):
    import triton.language
"""


@pytest.mark.parametrize(
    "order", ALL_ORDERS if os.environ.get("ARRAYBRIDGE_ALL_ORDERS") else SOME_ORDERS, ids=" ".join
)
def test_frameworks_can_be_imported_in_every_order(order):
    bridges.need(*order)
    # arraybridge cannot help where it is the last one.
    first, *others = order
    bridges.survives(f"import {first}, arraybridge, {', '.join(others)}\n{USE_EACH}", *order)


def test_the_files_of_a_package_are_found_without_its_import():
    (path,) = _isolate.files("numpy/_core/_multiarray_u*.so")
    assert "/numpy/_core/_multiarray_umath." in path
    # No such file, no such package, and a module without a folder.
    for library in ("numpy/_core/gone*.so", "arraybridge_gone/*", "sys/*"):
        assert list(_isolate.files(library)) == []
    assert list(_isolate.files("libc.so.6")) == ["libc.so.6"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RTLD_DEEPBIND is of Linux")
def test_a_library_of_a_package_is_opened_when_that_is_imported(tmp_path):
    package = tmp_path / "triton" / "_C"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("")
    library = importlib.util.find_spec("ml_dtypes._ml_dtypes_ext").origin
    shutil.copy(library, package / "libtriton.so")
    code = """
        import pathlib, sys
        sys.path.insert(0, {folder!r})
        import arraybridge
        opened = lambda: "libtriton" in pathlib.Path("/proc/self/maps").read_text()
        if {rival}:
            sys.modules["tensorflow"] = sys
        import json
        assert not opened()
        import triton
        assert opened() == {rival}
    """
    for rival in (False, True):
        bridges.survives(code.format(rival=rival, folder=str(tmp_path)))


@bridges.alone(every=True)
def test_a_subclass_whose_export_lies_does_no_harm(jax, tf, torch):
    from ctypes import c_char_p, c_void_p, py_object, pythonapi

    pythonapi.PyCapsule_New.restype = py_object
    pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
    lies = [lambda: pythonapi.PyCapsule_New(1, b"something", None), lambda: 42, lambda: None]
    plain = np.arange(4, dtype="f4")

    def liar(base, lie):
        return type("Liar", (base,), {"__dlpack__": lambda self, *a, **k: lie()})

    for lie in lies:
        arrays = {
            "numpy": plain.view(liar(np.ndarray, lie)),
            "torch": torch.from_numpy(plain).as_subclass(liar(torch.Tensor, lie)),
        }
        for framework, x in arrays.items():
            for target in bridges.INSTALLED:
                try:
                    y = ab.convert(x, target)
                except ab.MemoryConversionError:
                    continue
                if target != framework:
                    assert bridges.difference(target, y, plain) is None


@bridges.alone
def test_torch_copies_what_it_crashes_at_if_it_is_asked_naively(jax, torch):
    import gc

    for dtype, offset in (("complex128", 8), ("complex64", 4)):
        for shape in ((1,), (5, 6)):
            image = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
            y = ab.convert(bridges.aligned(image, offset=offset), "torch")
            y.clone(), y + 1, y.sum(), y * y, y.abs()
            assert bridges.difference("torch", y, image) is None

    # A tensor without storage cannot be cloned.
    x = torch.arange(4096.0)
    x.untyped_storage().resize_(0)
    assert ab.convert(x, "torch") is x
    for options in ({"copy": True}, {"dtype": "int32"}, {"copy": True, "dtype": "int32"}):
        with pytest.raises(ab.UnsupportedArrayError):
            ab.convert(x, "torch", **options)

    # JAX's memory can be written to.
    x = bridges.make("jax", np.arange(1024, dtype="f4"))
    y = ab.convert(x, "torch")
    del x
    gc.collect()
    y.fill_(2)
    assert y.sum().item() == 2048


@bridges.alone(every=True)
def test_results_may_outlive_the_interpreter(jax, torch, tf):
    import builtins

    kept = builtins.kept = []
    for source in bridges.INSTALLED:
        for target in bridges.INSTALLED:
            x = bridges.make(source, np.zeros((64, 64), "f4"))
            kept.append(ab.convert(x, target))
    kept.append(kept)


def test_a_process_may_end_while_jax_still_computes(jax, torch):
    code = """
        import jax, torch
        x = torch.ones(600, 600)
        y = ab.convert(x, "jax")
        f = jax.jit(lambda a: a @ a @ a @ a)
        z = f(y)
        del x, y
        """
    # This is a race, lost more often when several processes compete for the cores.
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(survives, code, "jax", "torch") for _ in range(12)]
    for run in runs:
        run.result()


def test_memory_is_freed_on_a_detached_thread_beside_a_second_interpreter():
    # Once there is a second interpreter, `PyGILState_Check` always returns 1.
    survives(
        """
        import ctypes, sys, weakref
        import numpy as np
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters

        class Owner(np.ndarray):
            pass

        class Managed(ctypes.Structure):
            _fields_ = [("tensor", ctypes.c_byte * 48), ("context", ctypes.c_void_p),
                        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]

        pointer, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        used = b"used_dltensor"

        def is_freed():
            gone, x = [], np.zeros(3).view(Owner)
            weakref.finalize(x, gone.append, True)
            capsule = ab.Tensor(x).__dlpack__()
            del x
            tensor = pointer(capsule, b"dltensor")
            rename(capsule, used)
            # ctypes releases the GIL for the call.
            Managed.from_address(tensor).deleter(tensor)
            return bool(gone)

        assert is_freed()
        second = interpreters.create()
        assert is_freed()
        interpreters.destroy(second)
        assert is_freed()
        """
    )


def test_an_array_of_the_largest_rank_arrives(torch, jax):
    x = np.ones((1,) * 32, "float32")
    for target in ("torch", "jax"):
        assert ab.convert(x, target).shape == x.shape
    deep = np.ones((1,) * 64, "float32")
    assert ab.convert(deep, "torch").shape == deep.shape


@bridges.alone
def test_a_deep_recursion_is_an_error_before_the_stack_ends(torch):
    import asyncio
    import functools
    import threading

    @ab.torch(output_type="input")
    def whole(x):
        return whole(x)

    @ab.torch(output_type="input", slice_by_slice=True)
    def sliced(x):
        return sliced(x[None])

    # Arguments that fit are passed through.
    @ab.torch
    def passed(x):
        return passed(x)

    called = ab.numpy(functools.partial(lambda x: called(x)))
    by_method = ab.numpy(functools.partial(lambda x: by_method.__call__(x)))

    @ab.torch
    def generated(x):
        yield from generated(x)

    @ab.torch
    async def awaited(x):
        return await awaited(x)

    ends = []

    def recurse():
        for function, x in (
            (whole, np.zeros(3)),
            (sliced, np.zeros((1, 2, 3))),
            (passed, torch.zeros(3)),
            (called, np.zeros(3)),
            (by_method, np.zeros(3)),
            (lambda x: list(generated(x)), np.zeros(3)),
            (lambda x: asyncio.run(awaited(x)), np.zeros(3)),
        ):
            try:
                function(x)
            except RecursionError as error:
                ends.append(str(error))

    sys.setrecursionlimit(100_000)
    recurse()
    for size in (256 << 10, 512 << 10, 2 << 20):
        threading.stack_size(size)
        thread = threading.Thread(target=recurse)
        thread.start()
        thread.join()
    # CPython 3.12 and later count calls from C as well, whatever the stack: on a large one
    # their limit comes first.
    counts_c_calls = sys.version_info >= (3, 12)
    ours = ends[7:] if counts_c_calls else ends
    assert len(ends) == 28 and all("stack is nearly used up" in end for end in ours), ends


# musl tells how much of the first stack is mapped now. HIDDEN hides the map of the memory.
MUSL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    static int (*next)(pthread_t, pthread_attr_t *);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_getattr_np");
    if (gettid() != getpid()) return next(thread, attributes);
    size_t page = 4096, size = page;
    char *end = (char *)((getauxval(AT_RANDOM) | (page - 1)) + 1);
    while (mremap(end - size - page, page, 2 * page, 0) == MAP_FAILED && errno == ENOMEM)
        size += page;
    pthread_attr_init(attributes);
    return pthread_attr_setstack(attributes, end - size, size);
}

int open64(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    if (!next) next = dlsym(RTLD_NEXT, "open64");
    if (getenv("HIDDEN") && !strcmp(path, "/proc/self/maps")) return errno = ENOENT, -1;
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return next(path, flags, mode);
}
"""
DEPTH = """
import functools, sys, threading
import arraybridge as ab, numpy as np

sys.setrecursionlimit(100_000)
size, kind = int(sys.argv[1]), sys.argv[2]

def recurse():
    calls = 0
    def call(x):
        nonlocal calls
        calls += 1
        return declared(x)
    declared = (ab.numpy if kind == "declared" else functools.partial)(call)
    try:
        declared(np.ones(3))
    except RecursionError as error:
        print(calls, error)

if size:
    threading.stack_size(size << 10)
    thread = threading.Thread(target=recurse)
    thread.start()
    thread.join()
else:
    recurse()
"""
RAISED = """
import resource
resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2)
"""


def depth(size: int, kind: str = "declared", before: str = "", **env: str) -> tuple[int, str]:
    """How deeply a function calls itself on a thread of `size` KiB, or the first, and the error."""
    calls, error = bridges.survives(before + DEPTH, str(size), kind, env=env).split(" ", 1)
    return int(calls), error


def counts_c_calls() -> bool:
    """Whether CPython counts calls from C; before, it does not, and later it measures the stack."""
    return (3, 12) <= sys.version_info < (3, 14)


@pytest.mark.parametrize("size", [64, 256, 1024, 8192])
def test_a_thread_is_used_to_the_end_of_its_stack(size):
    calls, error = depth(size)
    assert "stack is nearly used up" in error or sys.version_info >= (3, 14), error
    # A call takes 19 KiB without optimization, and 5 in a release.
    assert max(1, (size - 128) / 20) <= calls <= size / 4, calls


@pytest.mark.skipif(
    not (sys.platform == "linux" and shutil.which("cc")), reason="cc builds what stands for musl"
)
def test_the_first_stack_is_used_to_its_limit_whatever_the_c_library_tells(tmp_path):
    import resource

    library = tmp_path / "libmusl.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    subprocess.run(command, input=MUSL, text=True, check=True)
    (usual, _), musl = depth(0), {"LD_PRELOAD": str(library)}
    assert abs(depth(0, **musl)[0] - usual) < 10, usual
    # Without a map of the memory, half of the limit is used.
    assert depth(0, **musl, HIDDEN="1")[0] > usual * 0.45, usual
    # CPython's own limit comes first on a stack that is large enough for it.
    if counts_c_calls() and resource.getrlimit(resource.RLIMIT_STACK)[1] == resource.RLIM_INFINITY:
        raised = depth(0, before=RAISED, **musl)
        assert raised == depth(0, "partial", before=RAISED) and raised[0] > usual, raised


@bridges.alone
def test_generators_that_go_through_many_others_end_before_the_stack_does():
    sys.setrecursionlimit(100_000)

    @ab.numpy
    def through(x, inner):
        yield from inner

    steps = iter([1])
    for _ in range(3000):
        steps = through(np.ones(2), steps)
    try:
        next(steps)
    except RecursionError as error:
        assert "stack is nearly used up" in str(error), error
        os._exit(0)  # CPython frees such a chain on the stack.
    sys.exit("there was no error")


def test_an_allocation_of_pythons_that_fails_is_a_memory_error():
    pytest.importorskip("_testcapi", reason="this CPython has no _testcapi.set_nomemory")
    survives(
        """
        import _testcapi, sys, warnings
        import entries
        warnings.simplefilter("ignore")
        # PyO3 reports what it drops.
        sys.unraisablehook = lambda *_: None

        def outcome(call, number):
            _testcapi.set_nomemory(number, number + 1)
            try:
                call()
                return None
            except BaseException as error:
                return error
            finally:
                _testcapi.remove_mem_hooks()

        wrong, failed = {}, 0
        for name, call in entries.CALLS.items():
            if name in entries.OTHERS:
                continue
            call()
            number = suffices = 0
            # Some allocations have another way out, and beyond the last one the call succeeds.
            while suffices < 12:
                number += 1
                raised = outcome(call, number)
                suffices = suffices + 1 if raised is None else 0
                failed += isinstance(raised, MemoryError)
                if not isinstance(raised, (MemoryError, type(None))):
                    wrong.setdefault(f"{name}: {raised!r}", number)
        assert not wrong, wrong
        assert failed > 100, failed
        """
    )
