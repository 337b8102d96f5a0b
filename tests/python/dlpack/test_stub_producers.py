"""Imports of arrays that only say that they are on a device.

No memory here is on a device. The frameworks are real, or the fake CuPy of tests/fakes; what stands
in for the device is the answer to the question where an array is. So these tests show which calls
an import makes on what it is handed, and that what arraybridge hands over answers them. They are no
evidence that anything works on a device. Each test is a process of its own.
"""

import functools

import arraybridge as ab
import bridges
import faked
import numpy as np

PREFACE = """
import types
import fake_cupy
cupy = fake_cupy.mount()
fake_cupy.SHARES = True
import numpy as np, arraybridge as ab, bridges
from bridges import raises
image = bridges.aligned(np.arange(6, dtype="f4").reshape(2, 3))
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

pytestmark = faked.without_a_device


run = functools.partial(faked.run, before=PREFACE)


def handed_over(code, preface=TENSORFLOW_ON_A_GPU, load=("numpy", "tensorflow")):
    """Run code in which an array of TensorFlow is on a device."""
    return run(code, load=load, before=PREFACE + preface)


def test_a_framework_that_refuses_streams_is_exported_by_its_table(tf):
    handed_over("""
        x = on_a_gpu(tf.constant(image))
        assert ab.explain(x, "cupy").how == "DLPack", ab.explain(x, "cupy")
        given = []
        real = cupy.from_dlpack
        cupy.from_dlpack = lambda data: (given.append(data), real(data))[1]
        y = ab.convert(x, "cupy", copy=False)
        assert type(y) is cupy.ndarray and (y._host == image).all()

        # What is handed over refuses what it cannot do.
        handed, = given
        assert handed.__dlpack_device__() == (2, 0)
        # As torch, JAX and older consumers ask.
        for options in ({"stream": 7, "max_version": (1, 0)}, {"stream": 7}, {}):
            assert type(handed.__dlpack__(**options)).__name__ == "PyCapsule"
        capsule = handed.__dlpack__(stream=7, dl_device=(2, 0), copy=False)
        assert type(capsule).__name__ == "PyCapsule"
        for options in ({"copy": True}, {"dl_device": (1, 0)}):
            assert "TensorFlow" in str(raises(BufferError, lambda: handed.__dlpack__(**options)))

        # An array that does not name its DLPack device is where its framework says.
        for cls in (EagerTensor, *EagerTensor.__mro__):
            for name in ("__dlpack__", "__dlpack_device__"):
                if name in vars(cls):
                    delattr(cls, name)
        assert not hasattr(x, "__dlpack_device__")
        y = ab.convert(x, "cupy", copy=False)
        assert type(y) is cupy.ndarray and (y._host == image).all()
        """)


RECORDER = """
import warnings
warnings.simplefilter("error")

class Recorder:
    "Claims to be on a device, and notes how it is asked for its memory."

    def __init__(self, *unknown):
        self.asked, self.unknown = [], set(unknown)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        self.asked.append(options)
        if self.unknown & options.keys():
            raise TypeError(f"unexpected keywords among {options}")
        raise BufferError("it has no memory")

def asked(consumer, *unknown):
    recorder = Recorder(*unknown)
    raises(BufferError, lambda: consumer(recorder))
    return recorder.asked
"""


def test_torch_asks_a_producer_on_a_device_for_its_current_stream(torch):
    run(
        """
        import torch
        for handle, passed in ((0, 1), (0x70, 0x70)):
            stream = types.SimpleNamespace(cuda_stream=handle)
            torch.cuda.current_stream = lambda device: stream
            expected = {"stream": passed, "max_version": (1, 0)}
            assert asked(torch.from_dlpack) == [expected]
            # A producer that does not know versions is asked without one.
            again = asked(torch.from_dlpack, "max_version")
            assert again == [expected, {"stream": passed}], again
        # arraybridge passes no other arguments.
        for options in ({"copy": True}, {"device": torch.device("cuda", 0)}):
            more, = asked(lambda data: torch.from_dlpack(data, **options))
            assert more.keys() - expected.keys() <= {"copy", "dl_device"}, more
        """,
        load=("torch", "numpy"),
        before=PREFACE + RECORDER,
    )


def test_tensorflow_asks_no_producer(tf):
    run(
        """
        import inspect, tensorflow as tf
        # It takes a capsule, so that arraybridge asks. A capsule on a device that is not there ends
        # the process, which is why none is handed over here.
        recorder = Recorder()
        error = raises(Exception, lambda: tf.experimental.dlpack.from_dlpack(recorder))
        assert not recorder.asked, (recorder.asked, error)
        """,
        load=("tensorflow", "numpy"),
        before=PREFACE + RECORDER,
    )


def test_a_result_that_landed_elsewhere_is_not_passed_off_as_what_was_asked_for(tf):
    handed_over("""
        far = cupy.cuda.Device(1)

        def astray(self, order="C"):
            with far:
                return cupy.ndarray(self._host.copy(order))

        x = cupy.ndarray(image)
        cupy.ndarray.copy = astray
        y = ab.convert(x, "cupy", copy=True)
        assert y.device.id == 0 and (y._host == image).all()
        # TensorFlow keeps integers on the host.
        ints = image.astype("i4")
        error = raises(ab.DeviceUnavailableError, lambda: ab.convert(ints, "tensorflow", device=0))
        assert "host instead of accelerator:0" in str(error), error
        # An import that lands elsewhere is one that failed.
        on_a_gpu(tf.constant(image))
        cupy.from_dlpack = lambda data: astray(cupy.ndarray(image))
        with ab.trace() as records:
            y = ab.convert(tf.constant(image), "cupy")
        assert y.device.id == 0 and records[0].how == "through the host", records
        """)


THREE = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}


def follows_the_default_device(torch, jax):
    first, second, third = jax.local_devices(backend="cpu")
    for x in (np.arange(6.0, dtype="f4"), torch.arange(6.0)):
        assert ab.convert(x, "jax").devices() == {first}
        for default in (second, third):
            with jax.default_device(default):
                y = ab.convert(x, "jax")
                assert y.devices() == {default} == jax.numpy.asarray(np.zeros(1)).devices()
                assert y.tolist() == [0, 1, 2, 3, 4, 5]
                assert (y + jax.numpy.ones(6)).devices() == {default}
        with jax.default_device("cpu"):
            assert ab.convert(x, "jax").devices() == {first}


@bridges.alone(env=THREE)
def test_host_data_follows_the_default_device_of_jax(torch, jax):
    follows_the_default_device(torch, jax)


@bridges.alone(env={**THREE, "ARRAYBRIDGE_FAST": "0"})
def test_host_data_follows_the_default_device_of_jax_by_its_public_import(torch, jax):
    follows_the_default_device(torch, jax)


@bridges.alone(env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
def test_a_jax_whose_default_device_is_an_accelerator_gets_host_data_there(jax):
    first, second = jax.local_devices(backend="cpu")
    hosts = jax.local_devices
    jax.local_devices = lambda backend: [second] if backend == "gpu" else hosts(backend=backend)[:1]
    type(jax.numpy.zeros(1)).__dlpack_device__ = lambda self: (
        (2, 0) if self.devices() == {second} else (1, 0)
    )
    x = np.arange(6.0, dtype="f4")
    assert ab.convert(x, "jax").devices() == {first}
    for default in (second, "gpu"):
        with jax.default_device(default):
            assert ab.explain(x, "jax").device == "accelerator:0"
            assert ab.convert(x, "jax").devices() == {second}
            assert ab.convert(x, "jax", device="host").devices() == {first}


@bridges.alone(env={"ARRAYBRIDGE_FAST": "buffer"})
def test_a_framework_that_knows_no_dlpack_versions_is_asked_without_one(torch):
    # These versions have no exchange table.
    export, asked, names = torch.Tensor.__dlpack__, [], []

    def older(self, stream=None):
        asked.append(stream)
        return export(self)

    class Meter:
        def __get__(self, tensor, cls=None):
            def call(**options):
                names.append(sorted(options))
                return older(tensor, **options)

            return call

    torch.Tensor.__dlpack__ = Meter()
    for _ in range(2):
        x = torch.arange(6.0)
        y = ab.convert(x, "numpy")
        assert np.shares_memory(y, x.numpy()) and y.tolist() == [0, 1, 2, 3, 4, 5]
    # The answer is remembered.
    assert names == [["max_version", "stream"], ["stream"], ["stream"]], names
    assert asked == [None, None]


def test_exhausted_memory_is_recognised_by_class_and_text(tf):
    from arraybridge.oom_recovery import is_oom_error

    def error(name, text, *bases):
        module, _, name = name.rpartition(".")
        return type(name, bases, {"__module__": module, "__qualname__": name})(text)

    libraries = "cupy_backends.cuda.libs"
    told = {
        "tensorflow": [tf.errors.InternalError(None, None, "Dst tensor is not initialized.")],
        "jax": [
            error("jaxlib.xla_extension.XlaRuntimeError", "RESOURCE_EXHAUSTED: Out", RuntimeError)
        ],
        "cupy": [
            error(f"{libraries}.cublas.CUBLASError", "CUBLAS_STATUS_ALLOC_FAILED", RuntimeError),
            error(
                f"{libraries}.cusolver.CUSOLVERError", "CUSOLVER_STATUS_ALLOC_FAILED", RuntimeError
            ),
        ],
        "torch": [
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
            RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        ],
        "pyclesperanto": [
            RuntimeError("Error: Failed to read buffer CUDA error: CUDA_ERROR_OUT_OF_MEMORY")
        ],
    }
    for framework, errors in told.items():
        for found in errors:
            assert is_oom_error(found, framework), found
    assert not is_oom_error(tf.errors.InternalError(None, None, "the kernel failed"))
    assert not is_oom_error(error(f"{libraries}.cublas.CUBLASError", "NOT_SUPPORTED", RuntimeError))
