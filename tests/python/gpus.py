"""Make and read arrays on a GPU without arraybridge."""

import os

import numpy as np
import pytest

# Work on an array of this shape keeps a device busy for a while. On the simulated CUDA, work is
# late whatever its size.
BUSY = (64, 64) if os.environ.get("SIMULATED_CUDA") else (2048, 2048)


def why_absent(framework):
    """Why the framework has no device here; None if it has one."""
    try:
        if framework == "cupy":
            import cupy

            return None if cupy.cuda.runtime.getDeviceCount() else "CuPy sees no device"
        if framework == "torch":
            import torch

            return None if torch.cuda.is_available() else "torch sees no CUDA device"
        if framework == "jax":
            import jax

            return None if jax.devices("gpu") else "JAX sees no GPU"
        import tensorflow as tf

        return None if tf.config.list_logical_devices("GPU") else "TensorFlow sees no GPU"
    except Exception as error:
        return f"{framework}: {type(error).__name__}: {error}"


_absent: dict[str, str | None] = {}


def need(*names):
    for name in names:
        if name == "numpy":
            continue
        if name not in _absent:
            _absent[name] = why_absent(name)
        if _absent[name]:
            pytest.skip(_absent[name])


def make(framework, array, index=0):
    """An array on a device."""
    if framework == "numpy":
        return array.copy()
    if framework == "cupy":
        import cupy

        with cupy.cuda.Device(index):
            return cupy.asarray(array)
    if framework == "torch":
        import torch

        return torch.from_numpy(array.copy()).to(f"cuda:{index}")
    if framework == "jax":
        import jax

        return jax.device_put(array.copy(), jax.devices("gpu")[index])
    import tensorflow as tf

    with tf.device(f"/GPU:{index}"):
        return tf.identity(tf.constant(array))


def host(framework, x):
    """The values, copied to the host by the framework."""
    if framework == "cupy":
        return x.get()
    if framework == "torch":
        return x.cpu().numpy()
    if framework == "tensorflow":
        return x.numpy()
    return np.asarray(x)


def address(framework, x):
    if framework == "cupy":
        return x.data.ptr
    if framework == "torch":
        return x.data_ptr()
    if framework == "jax":
        return x.unsafe_buffer_pointer()
    return None


def on_device(framework, x):
    if framework == "cupy":
        return True
    if framework == "torch":
        return x.is_cuda
    if framework == "jax":
        return {d.platform for d in x.devices()} == {"gpu"}
    return "GPU" in x.backing_device
