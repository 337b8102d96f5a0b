"""Make, read and change arrays of each framework with its own functions.

A check must not look at the result of a conversion with another one: a mistake could undo itself.
Places are ``"host"`` and ``"accelerator:0"``, as arraybridge writes them.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy

__all__ = [
    "KNOWN", "End", "address", "device_of", "fill", "finish", "gpus", "import_order", "make",
    "places", "read", "read_again", "scope", "stays", "write",
]  # fmt: skip

KNOWN = ("numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto")
# Their arrays can be written to, and the write is seen by all who share the memory.
MUTABLE = ("numpy", "cupy", "torch")

# An end of a conversion: a framework, and where its array is.
End = tuple[str, str]


def device_of(end: End, places: dict[str, list[str]]) -> str | None:
    """The ``device`` to ask for; None where a framework has only one place."""
    name, place = end
    return place if len(places[name]) > 1 else None


def gpus(places: dict[str, list[str]]) -> list[End]:
    """The ends on a GPU. pyclesperanto's devices may be anything."""
    return [
        (name, place)
        for name, found in places.items()
        for place in found
        if place != "host" and name != "pyclesperanto"
    ]


def import_order(names: Sequence[str]) -> list[str]:
    """The names in an order that works: OpenCL comes before TensorFlow."""
    return sorted(names, key=lambda name: (name != "pyclesperanto", name == "tensorflow"))


def _index(place: str) -> int:
    return int(place.partition(":")[2])


def _get(name: str) -> Any:
    return importlib.import_module(name)


def places(name: str) -> list[str]:
    """Where the framework can keep arrays on this machine."""
    module = _get(name)
    has_host = name not in ("cupy", "pyclesperanto")
    if name == "jax":  # it may have been told to use nothing but a GPU
        try:
            has_host = bool(module.local_devices(backend="cpu"))
        except RuntimeError:
            has_host = False
    number = _ACCELERATORS[name](module) if name in _ACCELERATORS else 0
    return ["host"] * has_host + [f"accelerator:{index}" for index in range(number)]


# The number of accelerators that a framework finds.
_ACCELERATORS: dict[str, Callable[[Any], int]] = {
    "cupy": lambda cupy: cupy.cuda.runtime.getDeviceCount(),
    "torch": lambda torch: torch.cuda.device_count(),
    "tensorflow": lambda tensorflow: len(tensorflow.config.list_logical_devices("GPU")),
    "jax": lambda jax: sum(device.platform == "gpu" for device in jax.local_devices()),
    "pyclesperanto": lambda cle: len(cle.list_available_devices("all")),
}


def make(name: str, array: numpy.ndarray, place: str = "host") -> Any:
    """An array of the framework with the values of a NumPy array, in memory of its own."""
    native = numpy.array(array, order="C", copy=True)
    module = _get(name)
    if name == "numpy":
        return native
    if name == "torch":
        there = "cpu" if place == "host" else f"cuda:{_index(place)}"
        return module.from_numpy(native).clone().to(there)
    if name == "jax":
        devices = module.local_devices(backend="cpu" if place == "host" else "gpu")
        return module.device_put(native, devices[0 if place == "host" else _index(place)])
    if name == "pyclesperanto":
        return module.push(native, device=module.select_device(_index(place), "all"))
    with scope(name, place):
        return (
            module.asarray(native) if name == "cupy" else module.identity(module.constant(native))
        )


def stays(name: str, array: numpy.ndarray, place: str) -> bool:
    """Return whether the framework keeps such an array there. TensorFlow has int32 on the host."""
    if name != "tensorflow" or place == "host":
        return True
    return "GPU" in make(name, array, place).backing_device


def read(name: str, array: Any) -> numpy.ndarray:
    """The values, copied to the host by the framework."""
    if name == "cupy":
        with array.device:
            return array.get()
    if name == "pyclesperanto":
        return array.get()
    if name == "torch":
        return array.detach().cpu().numpy()
    return array.numpy() if name == "tensorflow" else numpy.asarray(array)


def read_again(name: str, array: Any) -> numpy.ndarray:
    """The values now: JAX remembers what it has copied to the host."""
    if name == "jax":
        array = _get(name).device_put(array, array.sharding, may_alias=False)
    return read(name, array)


def write(name: str, array: Any, value: Any) -> bool:
    """Write a value to the first row. Return False if the array cannot be written to."""
    if name not in MUTABLE or (name == "numpy" and not array.flags.writeable):
        return False
    fill(name, array[:1] if array.ndim else array, value)
    return True


def fill(name: str, array: Any, value: Any) -> None:
    """Set all elements of an array that can be written to."""
    with array.device if name == "cupy" else contextlib.nullcontext():
        array[...] = value


def scope(name: str, place: str) -> AbstractContextManager[Any]:
    """Makes a device current, so that operations on its arrays run there."""
    module = _get(name)
    if name == "cupy":
        return module.cuda.Device(_index(place))
    if name == "tensorflow":
        return module.device("CPU:0" if place == "host" else f"GPU:{_index(place)}")
    return contextlib.nullcontext()


def address(name: str, array: Any) -> int | None:
    """The address of the first element; None if the framework does not say."""
    if name == "numpy":
        return array.__array_interface__["data"][0]
    if name == "cupy":
        return array.data.ptr
    if name == "torch":
        return array.data_ptr()
    if name == "jax":
        return array.unsafe_buffer_pointer()
    if name == "tensorflow" and "CPU" in array.backing_device:
        return numpy.asarray(memoryview(array)).__array_interface__["data"][0]
    return None


def finish(name: str, array: Any) -> None:
    """Wait until the array has its values."""
    if name == "jax":
        array.block_until_ready()
    elif name == "torch" and array.is_cuda:
        _get(name).cuda.synchronize(array.device)
    elif name == "cupy":
        array.device.synchronize()
    elif name == "tensorflow" and "GPU" in array.backing_device:
        # There is no call that waits, but a copy of one element waits for what was queued before.
        _get(name).reshape(array, (-1,))[:1].numpy()
