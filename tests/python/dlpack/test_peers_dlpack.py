"""What the tests of other projects demand of DLPack, of `Tensor` and `convert`.

`SUITES` names every test of those suites. Each is met by a test of this file (`meets`), or
`NOT_HERE` says why not. Where a peer demands an error, any error meets the demand: classes and
words differ between peers. The producers here have DLPack's methods only, so that nothing else of
them can be used.
"""

import ctypes
import enum
import gc
import importlib
import itertools
import re
import sys
from pathlib import Path

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")

SUITES = {
    "numpy": (
        "numpy/_core/tests/test_dlpack.py",
        """test_dunder_dlpack_refcount test_dunder_dlpack_stream test_dunder_dlpack_copy
        test_strides_not_multiple_of_itemsize test_from_dlpack_refcount test_dtype_passthrough
        test_invalid_dtype test_invalid_byte_swapping test_non_contiguous test_higher_dims
        test_dlpack_device test_dlpack_destructor_exception test_readonly test_writeable test_ndim0
        test_size1dims_arrays test_copy test_device""",
    ),
    "torch": (
        "test/test_dlpack.py",
        """test_dlpack_capsule_conversion test_dlpack_protocol_conversion test_dlpack_shared_storage
        test_dlpack_conversion_with_streams test_dlpack_conversion_with_streams_narrow_precision
        test_from_dlpack test_from_dlpack_noncontinguous test_dlpack_conversion_with_diff_streams
        test_dlpack_conversion_with_diff_streams_narrow_precision test_from_dlpack_dtype
        test_dlpack_default_stream test_dlpack_convert_default_stream
        test_dlpack_tensor_invalid_stream test_dlpack_cuda_per_thread_stream
        test_dlpack_invalid_rocm_streams test_dlpack_invalid_cuda_streams
        test_dlpack_invalid_cpu_stream test_dlpack_tensor_on_different_device
        test_dlpack_export_requires_grad test_dlpack_export_is_conj test_dlpack_export_non_strided
        test_dlpack_normalize_strides test_automatically_select_in_creation test_max_version
        test_numpy_dlpack_protocol_conversion test_copy test_no_copy test_needs_copy_error
        test_unsupported_device_error test_dlpack_unsupported_dtype_error""",
    ),
    "jax": (
        "tests/array_interoperability_test.py",
        """testJaxRoundTrip testJaxArrayRoundTrip testTensorFlowToJax testJaxToTensorFlow
        testTensorFlowToJaxInt64 testTensorFlowToJaxNondefaultLayout testNumpyToJax
        testNumpyToJaxNondefaultLayout testJaxToNumpy testCudaArrayInterfaceOnNonCudaFails
        testCudaArrayInterfaceOnShardedArrayFails testCudaArrayInterfaceWorks
        testCudaArrayInterfaceBfloat16Fails testJaxToCuPy testCuPyToJax testCaiToJax
        testJaxAndTfHaveTheSameBfloat16Type""",
    ),
    "array-api-tests": (
        "array_api_tests/test_dlpack.py",
        "test_dlpack_device test_dunder_dlpack test_from_dlpack",
    ),
    "dlpark": (
        "src/python, but for the exchange table, streams and its own types",
        """legacy_capsule_can_only_be_consumed_once versioned_capsule_can_only_be_consumed_once
        from_dlpack_rejects_copy_result_mismatch from_dlpack_negotiates_versioned_protocol
        from_dlpack_maps_device_and_passes_stream from_dlpack_passes_copy_without_stream
        from_dlpack_does_not_retry_internal_type_error
        standard_protocol_queries_device_then_negotiates_version
        rejects_a_device_change_between_discovery_and_import
        falls_back_to_legacy_no_argument_protocol rejects_objects_without_any_dlpack_protocol
        rejects_negative_device_id reusable_exporter_creates_fresh_capsules_and_selects_the_abi
        selects_abi_and_validates_zero_copy""",
    ),
}

NEEDS_CUDA = "needs a CUDA device"
NEEDS_CUPY = "needs CuPy and a CUDA device"
NOT_HERE = {
    "torch test_dlpack_conversion_with_streams": NEEDS_CUDA,
    "torch test_dlpack_conversion_with_streams_narrow_precision": NEEDS_CUDA,
    "torch test_dlpack_conversion_with_diff_streams": NEEDS_CUDA,
    "torch test_dlpack_conversion_with_diff_streams_narrow_precision": NEEDS_CUDA,
    "torch test_dlpack_default_stream": NEEDS_CUDA,
    "torch test_dlpack_convert_default_stream": NEEDS_CUDA,
    "torch test_dlpack_cuda_per_thread_stream": NEEDS_CUDA,
    "torch test_dlpack_invalid_cuda_streams": NEEDS_CUDA,
    "torch test_dlpack_tensor_on_different_device": "needs two CUDA devices",
    "torch test_dlpack_invalid_rocm_streams": "ROCm is not supported",
    "torch test_needs_copy_error": NEEDS_CUDA,
    "jax testJaxRoundTrip": NEEDS_CUDA,
    "jax testCudaArrayInterfaceOnShardedArrayFails": "needs two CUDA devices",
    "jax testCudaArrayInterfaceWorks": NEEDS_CUDA,
    "jax testCudaArrayInterfaceBfloat16Fails": NEEDS_CUDA,
    "jax testJaxToCuPy": NEEDS_CUPY,
    "jax testCuPyToJax": NEEDS_CUPY,
    "jax testCaiToJax": "a Tensor is made of __dlpack__, and not of __cuda_array_interface__",
    "dlpark from_dlpack_maps_device_and_passes_stream": NEEDS_CUDA,
    "dlpark from_dlpack_does_not_retry_internal_type_error": "NumPy and torch ask again after any "
    "TypeError, and so does arraybridge: it may be that of a producer without max_version",
}

MET: set[str] = set()


def meets(suite, *names):
    """Notes that a test is what tests of a suite demand."""

    def note(test):
        MET.update(f"{suite} {name}" for name in names)
        return test

    return note


def test_every_demand_is_met_or_has_a_reason():
    demanded = {f"{suite} {name}" for suite, (_, names) in SUITES.items() for name in names.split()}
    assert demanded == MET | NOT_HERE.keys()
    assert not MET & NOT_HERE.keys()


def test_the_demands_are_those_of_the_installed_numpy():
    if np.__version__.split(".")[:2] != ["2", "4"]:
        pytest.skip("the list is that of NumPy 2.4")
    path, names = SUITES["numpy"]
    suite = Path(np.__file__).parents[1] / path
    if not suite.exists():
        pytest.skip("this NumPy was installed without its tests")
    assert re.findall(r"    def (test_\w+)", suite.read_text()) == names.split()


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


# --- what an export keeps and leaves


@meets("numpy", "test_dunder_dlpack_refcount")
@pytest.mark.parametrize("version", [(0, 0), None, (1, 0), (100, 3)])
def test_a_capsule_holds_the_memory_until_it_is_gone(version):
    base = np.arange(5)
    before = sys.getrefcount(base)
    capsule = ab.Tensor(base).__dlpack__(max_version=version)
    assert sys.getrefcount(base) == before + 1
    del capsule
    assert sys.getrefcount(base) == before


@meets("numpy", "test_from_dlpack_refcount")
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


@meets("numpy", "test_dlpack_destructor_exception")
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_an_exception_drops_leaves_the_exception(version):
    def fail():
        capsule = ab.Tensor(np.arange(5)).__dlpack__(max_version=version)
        raise RuntimeError(capsule_name(capsule))

    with pytest.raises(RuntimeError, match="^dltensor"):
        fail()


@meets("jax", "testJaxArrayRoundTrip")
@pytest.mark.parametrize("shape", [(), (4,), (2, 1, 4), (0,), (3, 0)])
def test_one_array_becomes_many_tensors_and_arrays(shape):
    bridges.need("jax")
    for dtype in ("uint8", "float32", "complex64", "bfloat16"):
        data = bridges.values(dtype, shape)
        tensor = ab.Tensor(Exporter(bridges.make("jax", data)))
        for _ in range(2):
            # JAX's own import knows no read-only memory.
            assert same(ab.convert(tensor, "jax"), data)
            assert same(ab.convert(Exporter(tensor), "numpy"), data)


@meets("torch", "test_dlpack_shared_storage")
def test_one_tensor_is_imported_many_times_and_shared_by_all():
    bridges.need("torch")
    base = np.zeros(5)
    tensor = ab.Tensor(base)
    one, other = importers()["torch"](tensor), np.from_dlpack(tensor)
    one[0] = 20
    other[1] = 30
    assert base.tolist() == one.tolist() == [20, 30, 0, 0, 0]
    assert np.from_dlpack(ab.Tensor(Exporter(one))).tolist() == base.tolist()


# --- the arguments of __dlpack__


@meets("numpy", "test_dunder_dlpack_stream")
@meets("torch", "test_dlpack_tensor_invalid_stream", "test_dlpack_invalid_cpu_stream")
def test_host_memory_has_no_stream():
    tensor = ab.Tensor(np.arange(5))
    tensor.__dlpack__(stream=None)
    for stream in (0, 1, object()):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=stream)


@meets("numpy", "test_dunder_dlpack_copy")
@meets("array-api-tests", "test_dunder_dlpack")
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


@meets("torch", "test_max_version", "test_dlpack_capsule_conversion")
@meets("dlpark", "reusable_exporter_creates_fresh_capsules_and_selects_the_abi")
def test_a_capsule_of_the_version_that_was_asked_for_is_taken():
    bridges.need("torch")
    base = np.arange(5, dtype="float32")
    tensor = ab.Tensor(base)
    for version, name in [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
                          ((2, 0), "dltensor_versioned")]:  # fmt: skip
        capsule = tensor.__dlpack__(max_version=version)
        assert capsule_name(capsule) == name
        imported = importers()["torch"](capsule)
        assert same(imported, base) and imported.data_ptr() == base.ctypes.data
        assert capsule_name(capsule) == f"used_{name}"


@meets("numpy", "test_device")
@meets("torch", "test_unsupported_device_error")
def test_a_device_where_the_memory_is_not_is_a_buffer_error():
    tensor = ab.Tensor(np.arange(5))
    tensor.__dlpack__(dl_device=(1, 0))
    assert np.from_dlpack(tensor, device="cpu").tolist() == list(range(5))
    # 10 is ROCm, and 16 Hexagon.
    for device, version in itertools.product([(10, 0), (16, 0)], [None, (1, 0)]):
        with pytest.raises(BufferError, match="not on"):
            tensor.__dlpack__(dl_device=device, max_version=version)


class Device(enum.IntEnum):
    """DLPack's devices."""

    CPU, CUDA, CUDA_HOST, OPENCL, VULKAN, METAL = 1, 2, 3, 4, 7, 8
    VPI, ROCM, CUDA_MANAGED, ONE_API = 9, 10, 13, 14


@meets("numpy", "test_dlpack_device")
@meets("array-api-tests", "test_dlpack_device")
@pytest.mark.parametrize("dtype", bridges.DTYPES)
def test_every_dtype_is_on_a_device_that_dlpack_knows(dtype):
    for data in (bridges.values(dtype), bridges.values(dtype)[::2]):
        kind, index = ab.Tensor(data).__dlpack_device__()
        assert (Device(kind), index, type(index)) == (Device.CPU, 0, int)


# --- dtypes and layouts, to every library and back


@meets("numpy", "test_dtype_passthrough")
@meets("torch", "test_dlpack_protocol_conversion", "test_from_dlpack", "test_from_dlpack_dtype")
@meets("torch", "test_numpy_dlpack_protocol_conversion")
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


@meets("numpy", "test_non_contiguous")
@meets("torch", "test_from_dlpack_noncontinguous")
@meets("jax", "testNumpyToJaxNondefaultLayout", "testTensorFlowToJaxNondefaultLayout")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64"])
def test_every_view_arrives_in_every_library(view, dtype):
    data = VIEWS[view](np.arange(25).reshape(5, 5).astype(dtype))
    for name in bridges.INSTALLED:
        if bridges.has_dtype(name, dtype):
            assert same(ab.convert(Exporter(data), name), data), name
    for name in {"numpy", "torch"} & importers().keys():
        assert same(importers()[name](ab.Tensor(data)), data), name


def test_a_transposed_tensor_of_tensorflow_arrives_in_jax():
    bridges.need("tensorflow", "jax")
    import tensorflow as tf

    x = tf.transpose(tf.reshape(tf.range(4), (2, 2)))
    assert same(ab.convert(x, "jax"), np.arange(4, dtype="int32").reshape(2, 2).T)


@meets("numpy", "test_higher_dims", "test_ndim0")
@pytest.mark.parametrize("ndim", [*range(6), 31, 32, 33, 64])
def test_every_rank_of_numpy_arrives(ndim):
    data = np.full((1,) * ndim, 3.5)
    for given in (data, Exporter(data)):
        taken = np.from_dlpack(ab.Tensor(given))
        assert taken.shape == data.shape and taken.ravel().tolist() == [3.5]


@meets("numpy", "test_size1dims_arrays")
@meets("torch", "test_dlpack_normalize_strides")
def test_strides_of_axes_with_one_element_do_not_matter_and_stay():
    bridges.need("torch")
    odd = np.ndarray((10, 5, 1), "f8", np.arange(400, dtype="uint8"), strides=(8, 80, 4))
    tensor = ab.Tensor.from_dlpack(odd, copy=False)
    assert np.array_equal(np.from_dlpack(tensor), odd, equal_nan=True)
    one = np.arange(16.0)[::3][:1]
    assert ab.Tensor(one).strides == one.strides == (24,)
    assert importers()["torch"](ab.Tensor(one)).stride() == (3,)


SHAPES = [(), (4,), (3, 4), (2, 3, 4), (3, 1), (1, 4), (2, 1, 4), (0,), (0, 4), (3, 0)]


@meets("jax", "testTensorFlowToJax", "testJaxToTensorFlow", "testJaxToNumpy")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "bfloat16"])
def test_every_shape_goes_between_jax_tensorflow_and_numpy(dtype):
    bridges.need("jax", "tensorflow")
    for shape in SHAPES:
        data = bridges.values(dtype, shape)
        for source, target in itertools.permutations(("jax", "tensorflow", "numpy"), 2):
            array = bridges.make(source, data)
            assert same(ab.convert(array, target), data), (source, target, shape)
            taken = ab.convert(ab.Tensor(array), target)
            assert same(taken, data), (source, target, shape)


@meets("jax", "testTensorFlowToJaxInt64")
def test_int64_becomes_int32_only_where_that_is_said():
    bridges.need("jax", "tensorflow")
    x = bridges.make("tensorflow", np.ones((2, 3), "int64"))
    with bridges.x64(False):
        assert importers()["jax"](ab.Tensor(np.ones((2, 3), "int64"))).dtype == "int32"
        with pytest.raises(ab.UnsupportedDtypeError, match="int32"):
            ab.convert(x, "jax")
        with pytest.warns(ab.NarrowedDtypeWarning, match="int64"):
            assert ab.convert_memory(x, "tensorflow", "jax").dtype == "int32"
    with bridges.x64(True):
        assert ab.convert(x, "jax").dtype == "int64"


@meets("jax", "testJaxAndTfHaveTheSameBfloat16Type")
def test_bfloat16_is_that_of_ml_dtypes_whoever_brings_it():
    data = bridges.values("bfloat16", (3,))
    for name in ("jax", "tensorflow", "torch"):
        if name in bridges.INSTALLED:
            seen = np.asarray(ab.Tensor(bridges.make(name, data)))
            assert seen.dtype == np.dtype(ml_dtypes.bfloat16)


@meets("jax", "testCudaArrayInterfaceOnNonCudaFails")
def test_host_memory_has_no_cuda_array_interface():
    tensor = ab.Tensor(np.arange(5))
    assert not hasattr(tensor, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="CUDA"):
        _ = tensor.__cuda_array_interface__


@meets("torch", "test_automatically_select_in_creation")
def test_functions_that_make_arrays_of_anything_take_a_tensor():
    data = np.arange(10, dtype="float32")
    for make in (np.array, np.asarray):
        assert np.array_equal(make(ab.Tensor(data)), data)
    bridges.need("torch", "jax")
    torch, jax = importlib.import_module("torch"), importlib.import_module("jax")
    for make in (torch.tensor, torch.asarray, jax.numpy.from_dlpack):
        assert same(make(ab.Tensor(data)), data), make


# --- copies, and memory that must not be written to


@meets("numpy", "test_readonly", "test_writeable")
def test_read_only_memory_stays_so_and_old_producers_cannot_say():
    frozen = np.arange(5)
    frozen.flags.writeable = False
    with pytest.raises(BufferError):
        ab.Tensor(frozen).__dlpack__()
    new, old = np.arange(5), np.arange(5).view(Old)
    for given, writable in [(frozen, False), (new, True), (old, False)]:
        consumers = np.from_dlpack(ab.Tensor(Exporter(given))), ab.convert(Exporter(given), "numpy")
        for taken in consumers:
            assert taken.flags.writeable == writable


@meets("numpy", "test_copy")
@meets("torch", "test_copy", "test_no_copy")
@meets("array-api-tests", "test_from_dlpack")
def test_copy_means_the_same_to_producer_and_consumer():
    bridges.need("torch")
    base = np.arange(5.0)
    for copy in (None, False, True):
        taken = [
            np.from_dlpack(ab.Tensor.from_dlpack(base, copy=copy)),
            np.from_dlpack(ab.Tensor.from_dlpack(Exporter(base), copy=copy)),
            np.from_dlpack(ab.Tensor(Exporter(base, copy=copy))),
            np.from_dlpack(Exporter(ab.Tensor(base), copy=copy)),
            ab.convert(Exporter(base), "numpy", device="cpu", copy=copy),
            ab.convert(Exporter(base), "torch", device="cpu", copy=copy).numpy(),
        ]
        assert [np.shares_memory(array, base) for array in taken] == [copy is not True] * 6
        assert all(np.array_equal(array, base) for array in taken)


@meets("dlpark", "from_dlpack_rejects_copy_result_mismatch", "selects_abi_and_validates_zero_copy")
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


@meets("dlpark", "from_dlpack_passes_copy_without_stream")
@pytest.mark.parametrize("copy", [None, True])
def test_a_download_from_a_device_that_shares_the_hosts_memory_is_a_copy(copy):
    base = np.arange(4.0)
    result = ab.convert(Unified(base), "numpy", copy=copy)
    assert not np.shares_memory(result, base)
    base[:] = 7
    assert result.tolist() == [0, 1, 2, 3]
    assert not np.shares_memory(np.asarray(ab.Tensor(Unified(base))), base)


@meets("jax", "testNumpyToJax")
@pytest.mark.parametrize("copy", [False, True, None])
@pytest.mark.parametrize("aligned", [False, True])
def test_jax_shares_what_is_aligned_and_is_never_given_what_is_not(copy, aligned):
    bridges.need("jax")
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


# --- what cannot be exported


def torch_refusals():
    import torch

    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.qint8)
    return {
        "gradient": torch.zeros(3, requires_grad=True),
        "conjugate": torch.conj(torch.tensor([-1 + 1j, 3 - 3j])),
        "sparse": torch.sparse_coo_tensor([[0]], [1], size=(1,)),
        "quantized": quantized,
    }


@meets("torch", "test_dlpack_export_requires_grad", "test_dlpack_export_is_conj")
@meets("torch", "test_dlpack_export_non_strided", "test_dlpack_unsupported_dtype_error")
@pytest.mark.filterwarnings("ignore::arraybridge.GradientDetachedWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["gradient", "conjugate", "sparse", "quantized"])
def test_what_torch_does_not_export_is_converted_as_it_is_meant_or_refused(name):
    bridges.need("torch")
    x = torch_refusals()[name]
    with pytest.raises(ab.UnsupportedArrayError, match="Exporter cannot hand out its memory"):
        ab.Tensor(Exporter(x))
    if name in ("sparse", "quantized"):
        with pytest.raises(ab.MemoryConversionError):
            ab.Tensor(x)
    else:
        assert same(ab.convert(x, "numpy"), x.detach().resolve_conj().numpy())
        assert same(np.asarray(ab.Tensor(x)), x.detach().resolve_conj().numpy())


@meets("numpy", "test_strides_not_multiple_of_itemsize", "test_invalid_byte_swapping")
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


@meets("numpy", "test_invalid_dtype")
def test_a_dtype_that_dlpack_lacks_is_refused():
    when = np.asarray(np.datetime64("2021-05-27"))
    with pytest.raises(ab.UnsupportedDtypeError, match="datetime64"):
        ab.Tensor(when)
    with pytest.raises(ab.UnsupportedArrayError) as caught:
        ab.Tensor(Exporter(when))
    assert isinstance(caught.value.__cause__, BufferError)


# --- how a producer is asked


@meets("dlpark", "standard_protocol_queries_device_then_negotiates_version")
@meets("dlpark", "from_dlpack_negotiates_versioned_protocol")
def test_a_producer_is_asked_where_its_memory_is_and_then_once_for_a_version():
    for take in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        producer = Exporter(np.arange(3))
        take(producer)
        device, keywords = producer.asked
        assert device == "device" and keywords == {"max_version": (1, 3)}


@meets("dlpark", "falls_back_to_legacy_no_argument_protocol")
def test_a_producer_without_arguments_is_asked_without_any():
    class Plain(Exporter):
        def __dlpack__(self):
            return self.array.__dlpack__()

    for producer in (Plain(np.arange(3.0)), Exporter(np.arange(3.0).view(Old))):
        assert np.from_dlpack(ab.Tensor(producer)).tolist() == [0, 1, 2]


@meets("dlpark", "rejects_objects_without_any_dlpack_protocol", "rejects_negative_device_id")
@meets("dlpark", "rejects_a_device_change_between_discovery_and_import")
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


@meets("dlpark", "legacy_capsule_can_only_be_consumed_once")
@meets("dlpark", "versioned_capsule_can_only_be_consumed_once")
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
