"""Producers of DLPack's capsules, and what tests look at in them."""

import enum
import gc
import importlib
import weakref

import arraybridge as ab
import bridges
import numpy as np


class Exporter:
    """DLPack's methods of an array, and nothing else of it."""

    def __init__(self, array, **forced):
        self.array, self.forced, self.asked = array, forced, []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        return self.array.__dlpack__(**{**keywords, **self.forced})

    def __dlpack_device__(self):
        self.asked.append("device")
        return self.array.__dlpack_device__()


class Old(np.ndarray):
    """An array of before DLPack 1.0."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=None)


def capsule_name(capsule):
    return repr(capsule).split('"')[1]


def same(array, expected):
    """Whether an array has the dtype, the shape and the bits of a NumPy array."""
    return bridges.difference(ab.detect_memory_type(array), array, expected) is None


def importers():
    """How each library makes an array of an object with `__dlpack__`."""
    found = {"numpy": np.from_dlpack, "Tensor": lambda x: ab.convert(ab.Tensor(x), "numpy")}
    if "torch" in bridges.INSTALLED:
        found["torch"] = importlib.import_module("torch").from_dlpack
    if "jax" in bridges.INSTALLED:
        found["jax"] = importlib.import_module("jax.dlpack").from_dlpack
    if "tensorflow" in bridges.INSTALLED:
        dlpack = importlib.import_module("tensorflow").experimental.dlpack
        found["tensorflow"] = lambda x: dlpack.from_dlpack(x.__dlpack__())
    return found


class Device(enum.IntEnum):
    """DLPack's devices."""

    CPU, CUDA, CUDA_HOST, OPENCL, VULKAN, METAL = 1, 2, 3, 4, 7, 8
    VPI, ROCM, CUDA_MANAGED, ONE_API = 9, 10, 13, 14


class Owner(np.ndarray):
    """A NumPy array that can be weakly referenced, to see when it goes."""


def owned(array):
    """A copy of an array, and a list that its end is written into."""
    gone = []
    base = bridges.aligned(array).view(Owner)
    weakref.finalize(base, gone.append, True)
    return base, gone


def settle():
    """Collect whatever is not used."""
    for _ in range(3):
        gc.collect()
