"""Arrays on a GPU, made and read with the functions of the frameworks alone."""

import os

import pytest
from arraybridge._tools import arrays

# Work on an array of this shape keeps a device busy for a while. On the simulated CUDA, work is
# late whatever its size.
BUSY = (64, 64) if os.environ.get("SIMULATED_CUDA") else (2048, 2048)
GPU = "accelerator:0"
host, address = arrays.read, arrays.address
_absent: dict[str, str | None] = {}


def why_absent(framework):
    """Why the framework has no device here; None if it has one."""
    try:
        return None if GPU in arrays.places(framework) else f"{framework} sees no GPU"
    except Exception as error:
        return f"{framework}: {type(error).__name__}: {error}"


def need(*names):
    for name in {*names} - {"numpy"}:
        if name not in _absent:
            _absent[name] = why_absent(name)
        if _absent[name]:
            pytest.skip(_absent[name])


def make(framework, array):
    """An array on the first device."""
    return arrays.make(framework, array, "host" if framework == "numpy" else GPU)


def on_device(framework, x):
    if framework == "jax":
        return {d.platform for d in x.devices()} == {"gpu"}
    if framework == "tensorflow":
        return "GPU" in x.backing_device
    return framework == "cupy" or x.is_cuda
