"""What the tests of other projects demand of exports, imports, dtypes and layouts.

Where a peer demands an error, any error meets the demand: classes and words differ between peers.
The producers here have DLPack's methods only, so that nothing else of them can be used.
"""

import ctypes
import gc
import itertools
import sys

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from producers import Device, Exporter, Old, capsule_name, importers, same


@pytest.mark.parametrize("kind", [np.ndarray, Old])
def test_an_import_holds_the_memory_until_it_is_gone(kind):
    base = np.arange(5).view(kind)
    before = sys.getrefcount(base)
    for take in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        taken = take(Exporter(base))
        gc.collect()
        assert sys.getrefcount(base) == before + 1
        del taken
        gc.collect()
        assert sys.getrefcount(base) == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_an_exception_drops_leaves_the_exception(version):
    def fail():
        capsule = ab.Tensor(np.arange(5)).__dlpack__(max_version=version)
        raise RuntimeError(capsule_name(capsule))

    with pytest.raises(RuntimeError, match="^dltensor"):
        fail()


@pytest.mark.parametrize("shape", [(), (4,), (2, 1, 4), (0,), (3, 0)])
def test_one_array_becomes_many_tensors_and_arrays(jax, shape):
    for dtype in ("uint8", "float32", "complex64", "bfloat16"):
        data = bridges.values(dtype, shape)
        tensor = ab.Tensor(Exporter(bridges.make("jax", data)))
        for _ in range(2):
            # JAX's own import knows no read-only memory.
            assert same(ab.convert(tensor, "jax"), data)
            assert same(ab.convert(Exporter(tensor), "numpy"), data)


def test_one_tensor_is_imported_many_times_and_shared_by_all(torch):
    base = np.zeros(5)
    tensor = ab.Tensor(base)
    one, other = importers()["torch"](tensor), np.from_dlpack(tensor)
    one[0] = 20
    other[1] = 30
    assert base.tolist() == one.tolist() == [20, 30, 0, 0, 0]
    assert np.from_dlpack(ab.Tensor(Exporter(one))).tolist() == base.tolist()


def test_host_memory_has_no_stream():
    tensor = ab.Tensor(np.arange(5))
    tensor.__dlpack__(stream=None)
    for stream in (0, 1, object()):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=stream)


def test_every_combination_of_arguments_is_taken():
    tensor = ab.Tensor(np.arange(6).reshape(2, 3))
    absent = object()
    choices = {
        "copy": [absent, None, True, False],
        "max_version": [absent, None, (0, 0), (1, 0), (2, 0)],
        "dl_device": [absent, None, (1, 0)],
        "stream": [absent, None],
    }
    for values in itertools.product(*choices.values()):
        given = dict(zip(choices, values, strict=True))
        given = {name: value for name, value in given.items() if value is not absent}
        version = given.get("max_version") or (0, 0)
        name = "dltensor_versioned" if version[0] else "dltensor"
        assert capsule_name(tensor.__dlpack__(**given)) == name
    with pytest.raises(TypeError, match="bool"):
        tensor.__dlpack__(copy=np.array([1, 2, 3]))


def test_a_capsule_of_the_version_that_was_asked_for_is_taken(torch):
    base = np.arange(5, dtype="float32")
    tensor = ab.Tensor(base)
    for version, name in [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
                          ((2, 0), "dltensor_versioned")]:  # fmt: skip
        capsule = tensor.__dlpack__(max_version=version)
        assert capsule_name(capsule) == name
        imported = importers()["torch"](capsule)
        assert same(imported, base) and imported.data_ptr() == base.ctypes.data
        assert capsule_name(capsule) == f"used_{name}"


def test_a_device_where_the_memory_is_not_is_a_buffer_error():
    tensor = ab.Tensor(np.arange(5))
    assert tensor.__dlpack_device__() == (1, 0)
    tensor.__dlpack__(dl_device=(1, 0))
    assert np.from_dlpack(tensor, device="cpu").tolist() == list(range(5))
    # 4 is OpenCL, 10 ROCm, and 16 Hexagon.
    devices = [(1, 1), (2, 0), (4, 0), (10, 0), (16, 0)]
    for device, version in itertools.product(devices, [None, (1, 0)]):
        with pytest.raises(BufferError, match="not on"):
            tensor.__dlpack__(dl_device=device, max_version=version)


def torch_refusals():
    import torch

    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.qint8)
    return {
        "gradient": torch.zeros(3, requires_grad=True),
        "conjugate": torch.conj(torch.tensor([-1 + 1j, 3 - 3j])),
        "sparse": torch.sparse_coo_tensor([[0]], [1], size=(1,)),
        "quantized": quantized,
    }


@pytest.mark.filterwarnings("ignore::arraybridge.GradientDetachedWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["gradient", "conjugate", "sparse", "quantized"])
def test_what_torch_does_not_export_is_converted_as_it_is_meant_or_refused(torch, name):
    x = torch_refusals()[name]
    with pytest.raises(ab.UnsupportedArrayError, match="Exporter cannot hand out its memory"):
        ab.Tensor(Exporter(x))
    if name in ("sparse", "quantized"):
        with pytest.raises(ab.MemoryConversionError):
            ab.Tensor(x)
    else:
        assert same(ab.convert(x, "numpy"), x.detach().resolve_conj().numpy())
        assert same(np.asarray(ab.Tensor(x)), x.detach().resolve_conj().numpy())


def test_what_numpy_does_not_export_is_copied_or_refused():
    packed = np.zeros(5, [("int", "int32"), ("char", "int8")])["int"]
    swapped = np.arange(5, dtype=np.dtype("=i8").newbyteorder())
    for x in (packed, swapped):
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.Tensor(Exporter(x))
        assert isinstance(caught.value.__cause__, BufferError)
        with pytest.raises(ab.CopyRequiredError):
            ab.Tensor.from_dlpack(x, copy=False)
        assert np.from_dlpack(ab.Tensor(x)).tolist() == x.tolist()


def test_a_dtype_that_dlpack_lacks_is_refused():
    when = np.asarray(np.datetime64("2021-05-27"))
    with pytest.raises(ab.UnsupportedDtypeError, match="datetime64"):
        ab.Tensor(when)
    with pytest.raises(ab.UnsupportedArrayError) as caught:
        ab.Tensor(Exporter(when))
    assert isinstance(caught.value.__cause__, BufferError)


# What the tests of other projects demand of imports: copies, read-only memory, producers.


def test_read_only_memory_stays_so_and_old_producers_cannot_say():
    frozen = bridges.frozen(np.arange(5))
    with pytest.raises(BufferError):
        ab.Tensor(frozen).__dlpack__()
    new, old = np.arange(5), np.arange(5).view(Old)
    for given, writable in [(frozen, False), (new, True), (old, False)]:
        consumers = np.from_dlpack(ab.Tensor(Exporter(given))), ab.convert(Exporter(given), "numpy")
        for taken in consumers:
            assert taken.flags.writeable == writable


def test_copy_means_the_same_to_producer_and_consumer(torch):
    base = np.arange(5.0)
    for copy in (None, False, True):
        taken = [
            np.from_dlpack(ab.Tensor.from_dlpack(base, copy=copy)),
            np.from_dlpack(ab.Tensor.from_dlpack(Exporter(base), copy=copy)),
            np.from_dlpack(ab.Tensor(Exporter(base, copy=copy))),
            np.from_dlpack(Exporter(ab.Tensor(base), copy=copy)),
            np.from_dlpack(Exporter(ab.Tensor(base), copy=copy, max_version=None)),
            ab.convert(Exporter(base), "numpy", device="cpu", copy=copy),
            ab.convert(Exporter(base), "torch", device="cpu", copy=copy).numpy(),
        ]
        assert [np.shares_memory(array, base) for array in taken] == [copy is not True] * 7
        assert all(np.array_equal(array, base) for array in taken)


def test_an_export_that_says_that_it_is_a_copy_counts_as_one():
    base = np.arange(5.0)
    for take in (
        lambda copy: ab.convert(Exporter(base, copy=True), "numpy", copy=copy),
        lambda copy: np.from_dlpack(ab.Tensor.from_dlpack(Exporter(base, copy=True), copy=copy)),
    ):
        assert not np.shares_memory(take(None), base)
        with pytest.raises(ab.CopyRequiredError):
            take(False)
    with ab.trace() as records:
        one = ab.convert(Exporter(base, copy=True), "numpy", copy=True)
        ab.convert(Exporter(base, copy=True), "numpy")
    why = "the object exports a copy of its memory"
    assert [(r.route, r.why) for r in records] == [("copy", why)] * 2
    assert one.tolist() == base.tolist()
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError, match=why):
        ab.convert(Exporter(base, copy=True), "numpy")


class Unified:
    """An array on a device that shares its memory with the host, and copies only when asked to."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        capsule = self.array.__dlpack__(max_version=max_version, copy=copy)
        if dl_device is None:
            # It is no CUDA memory, and is not read.
            raise BufferError("this device exports to the host only")
        return capsule

    def __dlpack_device__(self):
        return (Device.METAL, 0)


@pytest.mark.parametrize("copy", [None, True])
def test_a_download_from_a_device_that_shares_the_hosts_memory_is_a_copy(copy):
    base = np.arange(4.0)
    result = ab.convert(Unified(base), "numpy", copy=copy)
    assert not np.shares_memory(result, base)
    base[:] = 7
    assert result.tolist() == [0, 1, 2, 3]
    assert not np.shares_memory(np.asarray(ab.Tensor(Unified(base))), base)


@pytest.mark.parametrize("copy", [False, True, None])
@pytest.mark.parametrize("aligned", [False, True])
def test_jax_shares_what_is_aligned_and_is_never_given_what_is_not(jax, copy, aligned):
    for shape in ((4,), (3, 4), (2, 1, 4)):
        data = bridges.values("float32", shape)
        data = bridges.aligned(data, offset=0 if aligned else 2)
        if copy is False and not aligned:
            with pytest.raises(ab.CopyRequiredError):
                ab.convert(Exporter(data), "jax", copy=copy)
            continue
        taken = ab.convert(Exporter(data), "jax", copy=copy)
        assert same(taken, data)
        if copy is not None:
            assert (bridges.address("jax", taken) == data.ctypes.data) == (copy is False)


def test_a_producer_is_asked_where_its_memory_is_and_then_once_for_a_version():
    for take in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        producer = Exporter(np.arange(3))
        take(producer)
        device, keywords = producer.asked
        assert device == "device" and keywords == {"max_version": (1, 3)}


def test_a_producer_without_arguments_is_asked_without_any():
    class Plain(Exporter):
        def __dlpack__(self):
            return self.array.__dlpack__()

    for producer in (Plain(np.arange(3.0)), Exporter(np.arange(3.0).view(Old))):
        assert np.from_dlpack(ab.Tensor(producer)).tolist() == [0, 1, 2]


def test_a_producer_without_a_place_for_its_memory_is_refused():
    class Elsewhere(Exporter):
        def __init__(self, device):
            super().__init__(np.arange(3.0))
            self.device = device

        def __dlpack_device__(self):
            return self.device

    for producer in ({}, Elsewhere((2, -1)), Elsewhere((2, 0)), Elsewhere(None), Elsewhere((1,))):
        with pytest.raises(ab.UnsupportedArrayError):
            ab.Tensor(producer)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_was_taken_is_refused(version):
    capsule = np.arange(3.0).__dlpack__(max_version=version)

    class Same(Exporter):
        def __dlpack__(self, **_):
            return capsule

    assert np.from_dlpack(ab.Tensor(Same(np.arange(3.0)))).tolist() == [0, 1, 2]
    with pytest.raises(ab.UnsupportedArrayError, match="used_dltensor"):
        ab.Tensor(Same(np.arange(3.0)))
    is_named = ctypes.pythonapi.PyCapsule_IsValid
    is_named.argtypes = [ctypes.py_object, ctypes.c_char_p]
    assert is_named(capsule, b"used_dltensor_versioned" if version else b"used_dltensor")


# What the tests of other projects demand of dtypes and layouts, to every library and back.


@pytest.mark.parametrize("dtype", (*bridges.STANDARD, "bfloat16"))
def test_every_dtype_passes_through_in_both_directions(dtype):
    data = bridges.values(dtype, (5,))
    with bridges.x64(True):
        for name, take in importers().items():
            if name == "numpy" and dtype == "bfloat16":
                continue
            taken = take(ab.Tensor(data))
            assert same(taken, data), name
            # TensorFlow's tensors have no such methods, and NumPy exports no bfloat16.
            if name != "tensorflow" and (name, dtype) != ("Tensor", "bfloat16"):
                assert same(ab.convert(ab.Tensor(Exporter(taken)), "numpy"), data), name
    if dtype != "bfloat16":
        assert same(ab.convert(ab.Tensor(Exporter(data.view(Old))), "numpy"), data)


VIEWS = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, 0],
    "part of a row": lambda x: x[1, 1:4],
    "transposed": lambda x: x.T,
    "steps": lambda x: x[::2, ::2],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64"])
def test_every_view_arrives_in_every_library(view, dtype):
    data = VIEWS[view](np.arange(25).reshape(5, 5).astype(dtype))
    for name in bridges.INSTALLED:
        if bridges.has_dtype(name, dtype):
            assert same(ab.convert(Exporter(data), name), data), name
    for name in {"numpy", "torch"} & importers().keys():
        assert same(importers()[name](ab.Tensor(data)), data), name


@pytest.mark.parametrize("ndim", [*range(6), 31, 32, 33, 64])
def test_every_rank_of_numpy_arrives(ndim):
    data = np.full((1,) * ndim, 3.5)
    for given in (data, Exporter(data)):
        taken = np.from_dlpack(ab.Tensor(given))
        assert taken.shape == data.shape and taken.ravel().tolist() == [3.5]


def test_strides_of_axes_with_one_element_do_not_matter_and_stay(torch):
    odd = np.ndarray((10, 5, 1), "f8", np.arange(400, dtype="uint8"), strides=(8, 80, 4))
    tensor = ab.Tensor.from_dlpack(odd, copy=False)
    assert np.array_equal(np.from_dlpack(tensor), odd, equal_nan=True)
    one = np.arange(16.0)[::3][:1]
    assert ab.Tensor(one).strides == one.strides == (24,)
    assert importers()["torch"](ab.Tensor(one)).stride() == (3,)


def test_bfloat16_is_that_of_ml_dtypes_whoever_brings_it():
    data = bridges.values("bfloat16", (3,))
    for name in ("jax", "tensorflow", "torch"):
        if name in bridges.INSTALLED:
            seen = np.asarray(ab.Tensor(bridges.make(name, data)))
            assert seen.dtype == np.dtype(ml_dtypes.bfloat16)
