"""Arrays that are not plain are converted correctly or refused by name. Values are never wrong.

Those of one framework are in the other files of this name. Here are NumPy's, and the rules for all.
"""

import arraybridge as ab
import bridges
import numpy as np
import objects
import pytest
from special import arrives, others, refused

pytestmark = pytest.mark.filterwarnings("ignore")

# Objects without plain elements, each with a word that the error has.
REFUSED = {
    "masked array": "masked",
    "strings": "U2",
    "bytes": "S2",
    "objects": "object",
    "structured array": "('a', '<i4')",
    "void": "V7",
    "longdouble": np.dtype(np.longdouble).name,
    "clongdouble": np.dtype(np.clongdouble).name,
    "datetime": "datetime64",
    "timedelta": "timedelta64",
    "int4 of ml_dtypes": "int4",
    "variable-width strings": "String",
    "sparse tensor": "sparse",
    "sparse csr tensor": "sparse",
    "sparse csc tensor": "sparse",
    "quantized tensor": "quantized",
    "meta tensor": "meta",
    "nested tensor": "nested",
    "mkldnn tensor": "mkldnn tensor (call to_dense() first)",
    "uninitialized parameter": "uninitialized (run its module once first)",
    "complex32 tensor": "complex32",
    "sub-byte tensor": "uint4",
    "4-bit tensor": "int4",
    "1-bit tensor": "uint1",
    "deleted array": "deleted",
    "PRNG key": "key",
    "int4 array": "int4",
    "sparse tensorflow tensor": "sparse",
    "slices of a tensor": "sparse",
    "ragged tensor": "ragged",
    "quantized tensorflow tensor": "qint8",
    "int4 tensor": "int4",
    "string tensor": "string",
    "resource tensor": "resource",
    "variant tensor": "variant",
}
ARRIVES = (
    "matrix", "record array of numbers", "tensor that requires grad", "parameter",
    "conjugated view", "imaginary part of a conjugate", "conjugated view that requires grad",
    "inference tensor", "tensorflow variable",
)  # fmt: skip


def state(x):
    """What torch notes beside the values."""
    return [getattr(x, name, bool)() for name in ("is_conj", "is_neg")], getattr(
        x, "requires_grad", 0
    )


@pytest.mark.parametrize("name", REFUSED)
def test_an_object_without_plain_elements_is_refused_and_kept_by_its_own_framework(name):
    framework = objects.MODULES.get(name, "numpy")
    bridges.need(framework)
    x, _ = objects.make(name)
    refused(x, framework, REFUSED[name])
    assert ab.convert(x, framework) is x


@pytest.mark.parametrize("name", ARRIVES)
def test_an_object_with_plain_elements_arrives_and_stays_as_it_is(name):
    framework = objects.MODULES.get(name, "numpy")
    bridges.need(framework)
    x, values = objects.make(name)
    before = state(x)
    with bridges.x64(True):
        arrives(x, framework, values)
    assert ab.convert(x, framework) is x and state(x) == before


@pytest.mark.parametrize("mask", (False, [False, False], np.ma.nomask))
def test_an_array_whose_mask_is_empty_arrives(mask):
    x = np.ma.masked_array([1.0, 2.0], mask, dtype="float32")
    arrives(x, "numpy", np.array([1, 2], "float32"))
    x.harden_mask()
    assert type(ab.convert(x, "numpy", dtype="float64")) is np.ndarray
    assert ab.convert(x, "numpy") is x
    for name in others("numpy"):
        double = getattr(ab, name)(lambda image: image * 2)
        assert np.asarray(double(x)).tolist() == [2, 4]
    # Only what is inside belongs to somebody.
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        arrives(np.ma.masked, "numpy", np.zeros(()))


def test_a_masked_array_is_not_cast_for_a_function_of_numpy():
    x = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        ab.convert(x, "numpy", dtype="float32")
    cast = ab.numpy(input_dtype="float32")(lambda image: image)
    with pytest.raises(ab.UnsupportedArrayError, match="'image': .* masked"):
        cast(x)
    assert ab.numpy(lambda image: image)(x) is x
    copy = ab.numpy(copy=True)(lambda image: image)(x)
    assert copy is not x and copy.mask.tolist() == [False, True]


def test_a_numpy_scalar_is_refused_with_its_type_and_the_way_out():
    for scalar in (np.float32(1.5), np.uint8(7), np.bool_(True)):
        for target in bridges.INSTALLED:
            with pytest.raises(ab.UnsupportedArrayError, match=r"numpy\.asarray") as caught:
                ab.convert(scalar, target)
            assert type(scalar).__name__ in str(caught.value)


def test_an_array_that_changes_its_strides_between_calls_arrives_each_time():
    bridges.need("torch")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    for view in (x, x.T, x[::-1], x[:, ::2], x[1:, 1:]):
        assert bridges.difference("torch", ab.convert(view, "torch"), view) is None


def test_what_an_error_says_to_call_first_makes_an_array(torch):
    bridges.need("tensorflow", "jax")
    import jax
    import tensorflow as tf

    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, words, call in (
        (np.ma.masked_array([1, 2], [False, True]), "filled()", lambda x: x.filled()),
        (torch.eye(2).to_sparse(), "to_dense()", lambda x: x.to_dense()),
        (torch.eye(2).to_mkldnn(), "to_dense()", lambda x: x.to_dense()),
        (quantized, "dequantize()", lambda x: x.dequantize()),
        (nested, "to_padded_tensor(0.0)", lambda x: x.to_padded_tensor(0.0)),
        (tf.ragged.constant([[1, 2], [3]]), "to_tensor()", lambda x: x.to_tensor()),
        (tf.sparse.from_dense([[1.0]]), "tensorflow.sparse.to_dense", tf.sparse.to_dense),
        (tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])),
         "tensorflow.convert_to_tensor", tf.convert_to_tensor),
        (jax.random.key(0), "jax.random.key_data", jax.random.key_data),
    ):  # fmt: skip
        target = "torch" if isinstance(x, np.ndarray) else "numpy"
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.convert(x, target)
        assert f"(call {words} first)" in str(caught.value)
        assert ab.detect_memory_type(ab.convert(call(x), target)) == target
