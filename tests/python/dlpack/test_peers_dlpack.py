"""What the tests of other projects demand of DLPack, of `Tensor` and `convert`.

`SUITES` names every test of those suites. Each is met by a test of the other files of this name
(`meets`), or `NOT_HERE` says why not.
"""

import ast
import re
from pathlib import Path

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


def met():
    """The demands that the tests of this folder note that they meet."""
    for path in Path(__file__).parent.glob("test_peers_*.py"):
        for test in ast.parse(path.read_text()).body:
            if not getattr(test, "name", "").startswith("test_"):
                continue
            for decorator in test.decorator_list:
                if ast.unparse(decorator).startswith("meets("):
                    suite, *names = map(ast.literal_eval, decorator.args)
                    yield from (f"{suite} {name}" for name in names)


def test_every_demand_is_met_or_has_a_reason():
    demanded = {f"{suite} {name}" for suite, (_, names) in SUITES.items() for name in names.split()}
    there = set(met())
    assert demanded == there | NOT_HERE.keys()
    assert not there & NOT_HERE.keys()


def test_the_demands_are_those_of_the_installed_numpy():
    if np.__version__.split(".")[:2] != ["2", "4"]:
        pytest.skip("the list is that of NumPy 2.4")
    path, names = SUITES["numpy"]
    suite = Path(np.__file__).parents[1] / path
    if not suite.exists():
        pytest.skip("this NumPy was installed without its tests")
    assert re.findall(r"    def (test_\w+)", suite.read_text()) == names.split()
