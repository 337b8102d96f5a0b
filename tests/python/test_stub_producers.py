"""Imports of arrays that only say that they are on a device.

No memory here is on a device. The frameworks are real, or the fake CuPy of tests/fakes; what stands
in for the device is the answer to the question where an array is. So these tests show which calls
an import makes on what it is handed, and that what arraybridge hands over answers them. They are no
evidence that anything works on a device. Each test is a process of its own.
"""

import os
import textwrap

import bridges
import pytest

PREFACE = """
import sys
sys.path.insert(0, sys.argv[1])
import bridges
bridges.load({names})
import types
import fake_cupy
cupy = fake_cupy.mount()
fake_cupy.SHARES = True
import numpy as np, arraybridge as ab
image = bridges.aligned(np.arange(6, dtype="f4").reshape(2, 3))

def raises(kind, call):
    try:
        result = call()
    except kind as error:
        return error
    raise SystemExit(f"no {{kind.__name__}} but {{result!r}}")
"""

TENSORFLOW_ON_A_GPU = """
import tensorflow as tf
from tensorflow.python.framework.ops import EagerTensor
on_host = tf.config.list_logical_devices
gpu = types.SimpleNamespace(name="/device:GPU:0")
tf.config.list_logical_devices = lambda kind: [gpu] if kind == "GPU" else on_host(kind)

def on_a_gpu(tensor):
    full = "/job:localhost/replica:0/task:0" + gpu.name
    EagerTensor.backing_device = property(lambda self: full)
    EagerTensor.__dlpack_device__ = lambda self: (2, 0)
    return tensor
"""

pytestmark = pytest.mark.skipif(
    "CUDA_VISIBLE_DEVICES" in os.environ,
    reason="a device is assigned to this process: the fake and real frameworks would disagree",
)


def run(code, *names, before=""):
    preface = PREFACE.format(names=", ".join(map(repr, names)))
    code = preface + before + textwrap.dedent(code)
    return bridges.survives(code, str(bridges.ROOT / "tests" / "fakes"))


def test_a_framework_that_refuses_streams_is_exported_by_its_table():
    bridges.need("tensorflow")
    run(
        """
        x = on_a_gpu(tf.constant(image))
        assert ab.explain(x, "cupy").how == "DLPack", ab.explain(x, "cupy")
        y = ab.convert(x, "cupy", copy=False)
        assert type(y) is cupy.ndarray and (y._host == image).all()
        """,
        "numpy",
        "tensorflow",
        before=TENSORFLOW_ON_A_GPU,
    )


def test_an_array_that_does_not_name_its_dlpack_device_is_where_its_framework_says():
    bridges.need("tensorflow")
    run(
        """
        x = on_a_gpu(tf.constant(image))
        from tensorflow.python.framework import ops
        for cls in (EagerTensor, *EagerTensor.__mro__):
            for name in ("__dlpack__", "__dlpack_device__"):
                if name in vars(cls):
                    delattr(cls, name)
        assert not hasattr(x, "__dlpack_device__")
        y = ab.convert(x, "cupy", copy=False)
        assert type(y) is cupy.ndarray and (y._host == image).all()
        """,
        "numpy",
        "tensorflow",
        before=TENSORFLOW_ON_A_GPU,
    )


def test_what_is_handed_over_refuses_what_it_cannot_do():
    bridges.need("tensorflow")
    run(
        """
        x = on_a_gpu(tf.constant(image))
        given = []
        real = cupy.from_dlpack
        cupy.from_dlpack = lambda data: (given.append(data), real(data))[1]
        ab.convert(x, "cupy")
        handed, = given
        assert handed.__dlpack_device__() == (2, 0)
        assert type(handed.__dlpack__(stream=7, dl_device=(2, 0), copy=False)).__name__ == "PyCapsule"
        for options in ({"copy": True}, {"dl_device": (1, 0)}):
            assert "TensorFlow" in str(raises(BufferError, lambda: handed.__dlpack__(**options)))
        """,
        "numpy",
        "tensorflow",
        before=TENSORFLOW_ON_A_GPU,
    )
