"""Arrays with masks and units: they are kept or refused, and never lose them in silence."""

import arraybridge as ab
import numpy as np
import pytest

u = pytest.importorskip("astropy.units")
unyt = pytest.importorskip("unyt")
masked = pytest.importorskip("astropy.utils.masked")
nddata = pytest.importorskip("astropy.nddata")

ONES = np.ones((2, 3), "float32")
MASK = np.array([[True, False, False], [False] * 3])


def ones(mask):
    return np.ones(mask.shape, "float32")


def ccd(mask):
    return nddata.CCDData(ones(mask), unit="adu", mask=mask)


MASKED = {
    "Masked": lambda mask: masked.Masked(ones(mask), mask=mask),
    "MaskedQuantity": lambda mask: masked.Masked(ones(mask) * u.dimensionless_unscaled, mask=mask),
    "CCDData": ccd,
}


@pytest.mark.parametrize("make", MASKED.values(), ids=MASKED)
def test_a_mask_with_something_in_it_is_refused(torch, make):
    data, f = make(MASK), ab.torch(lambda x: x)
    stack, out = make(np.stack([MASK, MASK])), np.zeros((2, 2, 3), "float32")
    for call in (
        lambda: ab.convert(data, "torch"),
        lambda: ab.explain(data, "torch"),
        lambda: ab.convert(data, "numpy", dtype="float64"),
        lambda: f(data),
        lambda: f(x={"a": [data]}),
        lambda: ab.stack_slices([data], "torch"),
        lambda: ab.Tensor(data),
        lambda: ab.unstack_slices(stack, "torch"),
        lambda: ab.process_slices(stack, lambda x: x),
        lambda: ab.process_slices(stack, lambda x: x, out=out),
        lambda: ab.numpy(lambda x: x, slice_by_slice=True)(stack),
        lambda: ab.numpy(lambda x: x, slice_by_slice=True)(stack, out=out),
        lambda: ab.numpy(lambda x: x, tiles=(2, 2))(data),
    ):
        with pytest.raises(ab.UnsupportedArrayError, match="masked"):
            call()
    assert not out.any()
    assert ab.convert(make(np.zeros_like(MASK)), "torch").equal(torch.ones(2, 3))


UNITS = {
    "astropy": (lambda x: x * u.m, lambda x: x.unit == u.m),
    "unyt": (lambda x: unyt.unyt_array(x, "m"), lambda x: str(x.units) == "m"),
}


@pytest.mark.parametrize(("make", "is_kept"), UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_a_unit_is_kept_or_refused_whatever_the_dtype(torch, make, is_kept, dtype):
    length = make(np.ones((2, 3), dtype))
    # The result is a float64 for both dtypes.
    result = ab.numpy(lambda x: x * np.float64(2) + 0 * x.astype("float64"))(length)
    assert is_kept(result) and result.dtype == "float64"
    with pytest.warns(ab.MetadataDroppedWarning, match="has no unit"):
        assert ab.convert(length, "torch").sum() == 6
    with pytest.raises(ab.UnsupportedArrayError, match="in the unit m .pass its value"):
        ab.torch(lambda x: x)(length)
    assert ab.convert(length.value, "torch").sum() == 6
    # The values would be written without the unit, except to an array that has one itself.
    out = np.zeros((2, 3), dtype)
    with pytest.raises(ab.UnsupportedArrayError, match="in the unit m .pass its value"):
        ab.numpy(lambda x: x, tiles=(2, 2))(length, out=out)
    assert not out.any()
    out = make(out)
    assert ab.numpy(lambda x: x, tiles=(2, 2))(length, out=out) is out
    assert (out == length).all()


def test_what_has_no_dimension_is_a_number(torch):
    for data in (ONES * u.dimensionless_unscaled, unyt.unyt_array(ONES, "dimensionless")):
        assert ab.convert(data, "torch").sum() == 6
