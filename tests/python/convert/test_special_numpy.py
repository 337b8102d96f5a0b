"""NumPy's arrays that are not plain are converted correctly or refused by name."""

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from special import arrives, others, refused

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_masked_array_is_refused():
    x = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False], dtype="float32")
    refused(x, "numpy", "masked", kind=ab.UnsupportedArrayError)
    with pytest.raises(ab.UnsupportedArrayError, match="masked"):
        ab.convert(x, "numpy", dtype="float64")
    assert ab.convert(x, "numpy") is x


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
    cast = ab.numpy(input_dtype="float32")(lambda image: image)
    with pytest.raises(ab.UnsupportedArrayError, match="'image': .* masked"):
        cast(x)
    assert ab.numpy(lambda image: image)(x) is x
    copy = ab.numpy(copy=True)(lambda image: image)(x)
    assert copy is not x and copy.mask.tolist() == [False, True]


def test_a_matrix_arrives_with_two_axes():
    with bridges.x64(True):
        arrives(np.matrix([[1, 2], [3, 4]], dtype="float32"), "numpy",
                np.array([[1, 2], [3, 4]], "float32"))  # fmt: skip


@pytest.mark.parametrize(
    ("array", "word"),
    [
        (np.array([b"ab", b"c"]), "S2"),
        (np.array(["ab", "c"]), "U2"),
        (np.array([1, "a", None], dtype=object), "object"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]), "structured"),
        (np.zeros(3, "V7"), "V7"),
        (np.zeros(3, np.longdouble), "longdouble"),
        (np.zeros(3, np.clongdouble), "clongdouble"),
        (np.array(["2026-01-01"], "datetime64[D]"), "datetime64"),
        (np.array([1], "timedelta64[s]"), "timedelta64"),
        (np.zeros(3, ml_dtypes.int4), "int4"),
        (np.array(["a", "b"], np.dtypes.StringDType()), "String"),
    ],
    ids=lambda value: value.dtype.name if isinstance(value, np.ndarray) else "",
)
def test_a_numpy_dtype_that_is_not_in_the_table_is_refused(array, word):
    refused(array, "numpy", word, str(array.dtype), array.dtype.name)
    assert ab.convert(array, "numpy") is array


def test_a_numpy_scalar_is_refused_with_its_type_and_the_way_out():
    for scalar in (np.float32(1.5), np.uint8(7), np.bool_(True)):
        for target in bridges.INSTALLED:
            with pytest.raises(ab.UnsupportedArrayError, match=r"numpy\.asarray") as caught:
                ab.convert(scalar, target)
            assert type(scalar).__name__ in str(caught.value)


def test_a_record_array_of_numbers_arrives():
    with bridges.x64(True):
        arrives(np.arange(4, dtype="int32").view(np.recarray), "numpy", np.arange(4, dtype="int32"))


def test_an_array_that_changes_its_strides_between_calls_arrives_each_time():
    bridges.need("torch")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    for view in (x, x.T, x[::-1], x[:, ::2], x[1:, 1:]):
        assert bridges.difference("torch", ab.convert(view, "torch"), view) is None
