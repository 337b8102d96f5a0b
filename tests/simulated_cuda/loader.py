"""Load the simulated CUDA into this process, in the place of the real one, before any framework is
imported.

`SIMULATED_CUDA` names the folder that build.py filled. Nothing that runs on it is evidence about
a device.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import sys
from collections import Counter
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import layout

FOLDER = Path(os.environ["SIMULATED_CUDA"])
# In this order: the driver needs the runtime. PyTorch, CuPy and XLA look for these names, and the
# loader of libraries hands out what already has a name.
NAMES = ("libcudart.so.13", "libnvidia-ml.so.1", "libcuda.so.1", "libnvrtc.so.13", *layout.UNUSED)
LIBRARIES = [ctypes.CDLL(str(FOLDER / name), mode=ctypes.RTLD_GLOBAL) for name in NAMES]
machine = LIBRARIES[0]
for text in ("violations", "refusals", "calls"):
    getattr(machine, f"simulated_{text}").restype = ctypes.c_char_p
machine.simulated_used.restype = ctypes.c_size_t
# Tests read what CuPy caches in this folder, too: its kernels are those of the simulation.
os.environ["CUPY_CACHE_DIR"] = str(FOLDER / "cupy")
# CUB's kernels are machine code.
os.environ["CUPY_ACCELERATORS"] = ""
# XLA asks for more than there is.
os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu")
os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_experimental_vmm_disabled")


def violations() -> list[str]:
    """What was done in no order or on memory that is not there, since the last time."""
    return machine.simulated_violations().decode().splitlines()


def refusals() -> dict[str, int]:
    """What was refused since the last time, by name."""
    return counted(machine.simulated_refusals())


def calls() -> Counter[str]:
    """The calls since the last time, by name."""
    return sum(calls_of_threads(), Counter())


def calls_of_threads() -> tuple[Counter[str], Counter[str]]:
    """The same: those of this thread, if it was the last one to ask, and those of the others."""
    own, others = Counter(), Counter()
    for name, count in counted(machine.simulated_calls()).items():
        plain = name.removesuffix(" elsewhere")
        (own if name == plain else others)[plain] = count
    return own, others


def counted(text: bytes) -> dict[str, int]:
    pairs = (line.rsplit(" ", 1) for line in text.decode().splitlines())
    return {name: int(count) for name, count in pairs}


def finish() -> None:
    """Do all the work that was asked for."""
    machine.simulated_finish()


# `mov rax, address; jmp rax`
JUMP = struct.Struct("<2sQ2s")
PAGE = 4096
READ_WRITE_EXECUTE = 7


def mapped(path: Path) -> tuple[int, int]:
    """The addresses at which a library is loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(str(path))]
    return min(int(start, 16) for start, _ in ranges), max(int(end, 16) for _, end in ranges)


def redirect(path: Path) -> None:
    """Make the functions of the CUDA runtime that is linked into a module jump to the simulation's.

    The functions are local, so that no library loaded before can take their place.
    """
    ctypes.CDLL(str(path))
    base, end = mapped(path)
    machine.simulated_add_runtime(ctypes.c_size_t(base), ctypes.c_size_t(end))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    redirected = 0
    for name, address, size in layout.local_functions(path):
        if not name.startswith(("cuda", "__cuda")) or name.startswith("cudart"):
            continue
        try:
            target = ctypes.cast(getattr(machine, name), ctypes.c_void_p).value
        except AttributeError:
            continue  # an inner function of the linked runtime
        # What follows a short function up to the next 16 bytes is padding.
        room = (size + 15) // 16 * 16 if address % 16 == 0 else size
        if room < JUMP.size:
            raise layout.unknown(f"{name} in {path.name} is too short to be replaced")
        start = base + address
        libc.mprotect(start // PAGE * PAGE, 2 * PAGE, READ_WRITE_EXECUTE)
        ctypes.memmove(start, JUMP.pack(b"\x48\xb8", target, b"\xff\xe0"), JUMP.size)
        redirected += 1
    if not redirected:
        raise layout.unknown(f"{path.name} has no CUDA runtime in its symbol table")


def redirect_cupy() -> None:
    for pattern in layout.CUPY_MODULES:
        (path,) = layout.SITE.glob(pattern)
        redirect(path.resolve())


def after_torch(module) -> None:
    import torch_kernels

    torch_kernels.install()


def after_hardware_utils(module) -> None:
    """JAX looks for a device file of NVIDIA's driver."""
    if not hasattr(module, "has_visible_nvidia_gpu"):
        raise layout.unknown("jax._src.hardware_utils has no has_visible_nvidia_gpu")
    module.has_visible_nvidia_gpu = lambda: True


class SmallerChecks(SourceFileLoader):
    """The checks of the selftest with less to do.

    Work is late here whatever its size, and XLA waits for each of its transfers until the device is
    out of patience.
    """

    CHECKS = "arraybridge._tools.selftest.checks"
    SMALLER = {
        "LONG = (4096, 4096)\n": "LONG = (64, 64)\n",
        "LONG_STEPS = 100\n": "LONG_STEPS = 10\n",
        "LONG_ROUNDS = 3\n": "LONG_ROUNDS = 1\n",
        "for dtype in DTYPES:": 'for dtype in ("uint8", "uint16", "int32", "float32"):',
    }

    def get_code(self, fullname):
        source = Path(self.path).read_text()
        for whole, smaller in self.SMALLER.items():
            if source.count(whole) != 1:
                raise layout.unknown(f"{self.path} has no {whole!r}")
            source = source.replace(whole, smaller)
        return compile(source, self.path, "exec")


class Hook:
    """Prepares a framework when it is imported: CuPy before its modules run, the others after."""

    BEFORE = {"cupy": redirect_cupy, "cupy_backends": redirect_cupy}
    AFTER = {"torch": after_torch, "jax._src.hardware_utils": after_hardware_utils}

    def __init__(self) -> None:
        self.done: set = set()

    def find_spec(self, name, path=None, target=None):
        if name == SmallerChecks.CHECKS:
            spec = PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = SmallerChecks(name, spec.origin)
            return spec
        before = self.BEFORE.get(name)
        if before is not None and before not in self.done:
            self.done.add(before)
            before()
        after = self.AFTER.get(name)
        if after is None or after in self.done:
            return None
        self.done.add(after)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            after(module)

        spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    """Prepare every framework that is imported from now on."""
    sys.meta_path.insert(0, Hook())
