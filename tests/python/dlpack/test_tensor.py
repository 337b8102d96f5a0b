"""Tensor: an array of no framework, made of arrays, converted to them, and a producer of DLPack."""

import copy
import multiprocessing
import pickle
import warnings
import weakref

import arraybridge as ab
import bridges
import ctable
import ml_dtypes
import numpy as np
import pytest
from producers import Exporter, Old, Owner, capsule_name, settle

IMAGE = np.arange(24, dtype="float32").reshape(4, 6)


@pytest.mark.parametrize("framework", bridges.HOST)
@pytest.mark.parametrize("dtype", bridges.STANDARD)
def test_every_framework_becomes_a_tensor_of_its_own_memory(framework, dtype):
    if framework == "jax" and dtype in bridges.SIXTY_FOUR_BIT:
        pytest.skip("JAX has 64-bit dtypes only when they are switched on")
    data = IMAGE.astype(dtype)
    array = bridges.make(framework, data)
    tensor = ab.Tensor(array)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((4, 6), dtype, "host")
    assert tensor.__array_interface__["data"][0] == bridges.address(framework, array)
    assert np.array_equal(np.asarray(tensor), data)


@pytest.mark.parametrize("framework", bridges.HOST)
def test_convert_takes_a_tensor(framework):
    tensor = ab.Tensor(IMAGE.copy())
    array = ab.convert(tensor, framework)
    assert ab.detect_memory_type(array) == framework
    assert bridges.difference(framework, array, IMAGE) is None
    assert ab.explain(tensor, framework).target == framework
    with ab.trace() as records:
        ab.convert(tensor, framework, dtype="uint8")
    assert [(r.target, r.dtype) for r in records] == [(framework, "uint8")]


def test_pyclesperanto_is_downloaded_and_uploaded(cle):
    tensor = ab.Tensor(bridges.make("pyclesperanto", IMAGE))
    assert np.array_equal(np.from_dlpack(tensor), IMAGE)
    back = ab.convert(tensor, "pyclesperanto")
    assert bridges.difference("pyclesperanto", back, IMAGE) is None


def test_the_libraries_own_imports_take_a_tensor(jax, torch, tf):
    tensor = ab.Tensor(bridges.aligned(IMAGE))
    address = tensor.__array_interface__["data"][0]
    for framework, shared in (
        ("numpy", np.from_dlpack(tensor)),
        ("numpy", np.asarray(tensor)),
        ("torch", torch.from_dlpack(tensor)),
        ("torch", torch.asarray(tensor)),
        ("jax", jax.dlpack.from_dlpack(tensor)),
    ):
        assert bridges.address(framework, shared) == address
    imported = tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())
    assert np.array_equal(imported.numpy(), IMAGE)


def test_jax_numpy_takes_a_tensor_of_any_dtype_and_narrows_none(jnp):
    for dtype in ("float32", "uint16", "bool", "bfloat16", "float64"):
        array = IMAGE.astype(bridges.np_dtype(dtype))
        with bridges.x64(True):
            for take in (jnp.asarray, jnp.array):
                assert bridges.difference("jax", take(ab.Tensor(array)), array) is None
            cast = jnp.asarray(ab.Tensor(array), dtype="float16")
            assert bridges.difference("jax", cast, array.astype("float16")) is None
    with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError, match="float64"):
        jnp.asarray(ab.Tensor(IMAGE.astype("float64")))


@pytest.mark.parametrize(
    "data",
    [
        IMAGE[::2, ::-1],
        IMAGE.T,
        np.broadcast_to(IMAGE[0], (3, 6)),
        IMAGE[:0],
        np.array(3.5),
        IMAGE.astype(">f4"),
        np.frombuffer(b"x" + IMAGE.tobytes(), dtype="uint8")[1:].view("float32"),
        np.zeros(5, dtype=[("a", "u1"), ("b", "f4")])["b"],
        IMAGE.astype(ml_dtypes.bfloat16),
    ],
    ids=["strided", "transposed", "broadcast", "empty", "0-d", "swapped", "unaligned", "packed",
         "bfloat16"],
)  # fmt: skip
def test_every_layout_arrives(data):
    tensor = ab.Tensor(data)
    assert tensor.shape == data.shape
    again = ab.convert(tensor, "numpy")
    assert again.dtype == data.dtype.newbyteorder("=")
    assert np.array_equal(again, data)


@pytest.mark.parametrize("framework", bridges.HOST)
@pytest.mark.parametrize("legacy", [False, True])
def test_convert_takes_any_object_that_hands_out_its_memory(framework, legacy):
    array = ab.convert(Exporter(IMAGE.copy().view(Old if legacy else np.ndarray)), framework)
    assert bridges.difference(framework, array, IMAGE) is None


class FakeDeviceArray:
    """Host memory that says it is on a CUDA device, and notes how it is exported. It is a fake: it
    shows that nothing is downloaded, not that anything works on a device."""

    def __init__(self, array):
        self.array, self.downloads = array, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device == (1, 0):
            self.downloads += 1
            return self.array.__dlpack__(max_version=max_version)
        assert stream == -1, "there is no device to be in order with"
        capsule = self.array.__dlpack__(max_version=(1, 0))
        ctable.managed(capsule).tensor.device.type = 2
        return capsule

    def __dlpack_device__(self):
        return (2, 0)


TARGETS = ("numpy", "torch", "jax", "tensorflow", "pyclesperanto")


@pytest.mark.parametrize("dtype", [None, "uint8"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_explanation_downloads_nothing_and_is_what_happens(target, dtype):
    array = FakeDeviceArray(IMAGE.copy())
    told = ab.explain(array, target, dtype=dtype)
    assert array.downloads == 0
    assert (told.route, told.shape, told.dtype) == ("copy", (4, 6), dtype or "float32")
    assert told.how == ("through the host" if target == "pyclesperanto" else "download")
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(array, target, copy=False)
    assert array.downloads == 0
    with ab.trace() as records:
        result = ab.convert(array, target, dtype=dtype)
    assert array.downloads == 1
    assert bridges.difference(target, result, IMAGE.astype(dtype or "float32")) is None
    assert dtype or [(r.route, r.how, r.why) for r in records] == [(told.route, told.how, told.why)]


# The address is none of this process; whoever looks there ends it.
ON_DEVICE = """
        import arraybridge as ab, bridges, copy, ctable, ctypes, pickle
        shape, strides = (ctypes.c_int64 * 2)(4, 6), (ctypes.c_int64 * 2)(6, 1)
        tensor = ctable.DLTensor(8, ctable.Device(2, 0), 2, ctable.DType(2, 32, 1), shape, strides)
        managed = ctable.Managed(ctable.Version(1, 3), None, ctable.DELETER(lambda managed: None))
        managed.tensor = tensor
        tensor = ctable.to_object(managed)
        assert repr(tensor) == "<arraybridge.Tensor float32[4, 6] on cuda:0>"
"""


def test_what_a_producer_raises_is_the_cause():
    class Broken(Exporter):
        def __dlpack__(self, **keywords):
            raise BufferError("not today")

    with pytest.raises(ab.UnsupportedArrayError, match="not today") as caught:
        ab.Tensor(Broken(IMAGE))
    assert isinstance(caught.value.__cause__, BufferError)


@pytest.mark.parametrize("data", [[1, 2], 3.0, None, "text"])
def test_what_has_no_memory_is_refused(tf, data):
    for use in (ab.Tensor, lambda data: ab.convert(data, "numpy")):
        with pytest.raises(ab.UnsupportedArrayError):
            use(data)
    # It is refused before it can end the process.
    with pytest.raises(ab.MemoryConversionError):
        ab.Tensor(tf.constant(["a"]))


def test_a_tensor_on_a_device_is_explained_and_not_pickled_without_a_look_at_its_memory():
    bridges.survives(
        ON_DEVICE
        + """
        told = ab.explain(tensor, "numpy")
        assert (told.route, told.how, told.shape) == ("copy", "download", (4, 6))
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            advice = 'take arraybridge.convert(tensor, "numpy")'
            call = lambda: function(tensor)
            bridges.raises(TypeError, call, "tensor on cuda:0 cannot be pickled", advice)
        del tensor  # before `managed`, whose callback frees it
        """
    )


def test_a_tensor_reads_well():
    assert repr(ab.Tensor(IMAGE.copy())) == "<arraybridge.Tensor float32[4, 6] on host>"
    tensor = ab.Tensor(IMAGE.T)
    assert (tensor.strides, tensor.ndim, tensor.nbytes) == ((4, 24), 2, 96)
    with pytest.raises(AttributeError):
        _ = tensor.__cuda_array_interface__
    with pytest.raises(AttributeError, match="DLPack"):
        _ = ab.Tensor(IMAGE.astype(ml_dtypes.bfloat16)).__array_interface__


@pytest.mark.parametrize("framework", bridges.HOST)
def test_as_function_takes_and_gives_a_frameworks_arrays(framework):
    def compiled(image, factor, *, parts):
        assert isinstance(image, ab.Tensor)
        array = np.from_dlpack(image) * factor
        return ab.Tensor(array), [Exporter(array), array.__dlpack__()], parts

    call = ab.as_function(compiled, framework)
    assert call.__name__ == "compiled"
    one, (two, three), parts = call(bridges.make(framework, IMAGE), 2, parts="x")
    for result in (one, two, three):
        assert bridges.difference(framework, result, IMAGE * 2) is None
    assert parts == "x"


def test_as_function_writes_into_the_callers_memory(torch):
    def compiled(out):
        np.from_dlpack(out)[:] = 7

    out = torch.zeros(3)
    assert ab.as_function(compiled, "torch")(out) is None
    assert out.tolist() == [7, 7, 7]


def test_as_function_wants_a_known_framework():
    with pytest.raises(ValueError, match="numpi"):
        ab.as_function(len, "numpi")


@pytest.mark.parametrize("dtype", ("bfloat16", "float8_e4m3fn", "uint16"))
def test_numpy_sees_a_tensor_of_any_dtype(dtype):
    array = IMAGE.astype(getattr(ml_dtypes, dtype, dtype))
    seen = np.asarray(ab.Tensor(array))
    assert seen.dtype == array.dtype and np.array_equal(seen, array)
    assert seen.ctypes.data == array.ctypes.data
    cast = np.asarray(ab.Tensor(array), dtype="float64")
    assert cast.dtype == "float64" and np.array_equal(cast, array.astype("float64"))
    copied = np.array(ab.Tensor(array), copy=True)
    assert copied.dtype == array.dtype and copied.ctypes.data != array.ctypes.data


def test_a_gradient_that_ends_in_a_tensor_is_warned_about(torch):
    x = torch.ones(2, requires_grad=True)
    for make in (ab.Tensor, ab.Tensor.from_dlpack):
        with warnings.catch_warnings(record=True, action="always") as caught:
            make(x.detach())
            assert not caught
            assert make(x).shape == (2,)
            make(x)
        assert [w.category for w in caught] == [ab.GradientDetachedWarning] * 2


@pytest.mark.parametrize("dtype", (*bridges.STANDARD, "bfloat16", "float8_e5m2"))
@pytest.mark.parametrize("protocol", (2, pickle.HIGHEST_PROTOCOL))
def test_a_tensor_on_the_host_is_pickled(dtype, protocol):
    data = IMAGE.astype(bridges.np_dtype(dtype))
    for array in (data, data[::2, 1::2], data[::-1].T, data[:0], data[0, 0, ...]):
        again = pickle.loads(pickle.dumps(ab.Tensor(array), protocol))
        assert type(again) is ab.Tensor and (again.shape, again.dtype) == (array.shape, dtype)
        assert np.asarray(again).tobytes() == array.tobytes()


def test_a_copy_of_a_tensor_shares_its_memory_and_a_deep_one_does_not():
    data = IMAGE.copy()
    tensor = ab.Tensor(data)
    shallow, (first, second) = copy.copy(tensor), copy.deepcopy([tensor, tensor])
    assert first is second
    data[0, 0] = 7
    assert np.asarray(shallow)[0, 0] == 7 and np.asarray(first)[0, 0] == 0


def test_a_large_tensor_is_pickled_out_of_band():
    buffers = []
    data = np.zeros((512, 512))
    text = pickle.dumps(ab.Tensor(data), 5, buffer_callback=buffers.append)
    assert len(text) < 1000 and buffers[0].raw().nbytes == data.nbytes
    again = pickle.loads(text, buffers=buffers)
    assert np.shares_memory(np.asarray(again), data)


def _total(tensor):
    return float(np.asarray(tensor).sum())


def test_a_tensor_goes_to_another_process_and_back():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_total, [ab.Tensor(IMAGE)]) == [IMAGE.sum()]


# Tensor as a producer of DLPack: what it is asked for, and how long its memory lives.


def test_only_keywords_are_taken():
    with pytest.raises(TypeError):
        ab.Tensor(IMAGE.copy()).__dlpack__(None)


def test_read_only_memory_says_so_or_is_refused():
    tensor = ab.Tensor(bridges.frozen(IMAGE))
    assert not np.from_dlpack(tensor).flags.writeable
    assert not np.asarray(tensor).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert capsule_name(tensor.__dlpack__(copy=True)) == "dltensor"
    assert np.from_dlpack(ab.Tensor(IMAGE.copy())).flags.writeable


def test_immutable_arrays_stay_read_only():
    for framework in ("jax", "tensorflow"):
        bridges.need(framework)
        assert not np.from_dlpack(ab.Tensor(bridges.make(framework, IMAGE))).flags.writeable


def test_memory_lives_until_the_last_consumer_is_gone(torch):
    gone = []
    base = IMAGE.copy().view(Owner)
    weakref.finalize(base, gone.append, True)
    tensor = ab.Tensor(base)
    consumers = [torch.from_dlpack(tensor), np.from_dlpack(tensor), np.asarray(tensor)]
    unused = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))]
    del base, tensor
    settle()
    assert not gone
    del unused
    while consumers:
        settle()
        assert not gone
        assert np.array_equal(np.asarray(consumers.pop()), IMAGE)
    settle()
    assert gone == [True]


def test_a_thousand_tensors_leave_nothing():
    base = IMAGE.copy().view(Owner)
    gone = []
    weakref.finalize(base, gone.append, True)
    for _ in range(1000):
        tensor = ab.Tensor(base)
        np.from_dlpack(tensor)
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=(1, 0), copy=True)
        ab.Tensor(tensor)
    del base, tensor
    settle()
    assert gone == [True]
