"""Arrays with masks and units: they are kept or refused, and never lose them in silence."""

import warnings

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
    for options in ({"slice_by_slice": True}, {"tiles": (2, 2)}):
        with pytest.raises(ab.UnsupportedArrayError, match="the result: .*in the unit m .pass its"):
            ab.numpy(lambda x: x, **options)(length, out=out)
    assert not out.any()
    out = make(out)
    assert ab.numpy(lambda x: x, tiles=(2, 2))(length, out=out) is out
    assert (out == length).all()


def test_what_has_no_dimension_is_a_number(torch):
    for data in (ONES * u.dimensionless_unscaled, unyt.unyt_array(ONES, "dimensionless")):
        assert ab.convert(data, "torch").sum() == 6


def quantities():
    data = np.ones((2, 3))
    found = {"astropy": data * u.m, "unyt": unyt.unyt_array(data, "m")}
    try:
        import pint
    except ImportError:
        return found
    return found | {"pint": data * pint.UnitRegistry().meter}


def unit(quantity):
    return str(getattr(quantity, "units", getattr(quantity, "unit", None)))


@pytest.mark.parametrize("name", ("astropy", "unyt", "pint"))
@pytest.mark.parametrize("is_labelled", (True, False))
@pytest.mark.parametrize("keep", (True, "strict"))
def test_a_unit_is_kept_alone_and_in_labels(torch, name, is_labelled, keep):
    xarray = pytest.importorskip("xarray")
    quantity = quantities().get(name)
    if quantity is None:
        pytest.skip(f"without {name}")
    numbers = getattr(quantity, "value", getattr(quantity, "magnitude", None))
    inside = (lambda data: data.data) if is_labelled else (lambda data: data)
    # A Variable keeps the class, which a DataArray of pandas' takes apart.
    variable = xarray.Variable(("y", "x"), quantity)
    data = xarray.DataArray(variable, coords={"y": [1, 2]}) if is_labelled else quantity
    with warnings.catch_warnings(action="error"):
        for options in ({}, {"tiles": (1, 2)}, {"slice_by_slice": True}):
            twice = ab.torch(output_type="input", keep=keep, **options)(lambda x: x * 2)
            result = twice(data)
            assert type(result) is type(data) and type(inside(result)) is type(quantity)
            assert unit(inside(result)) == unit(quantity) and bool(
                (inside(result) == 2 * quantity).all()
            )
        same = ab.convert(data, "numpy", dtype="float32", keep=keep)
        assert unit(inside(same)) == unit(quantity) and inside(same).dtype == "float32"
        assert type(ab.convert(data, "torch", keep=False)) is torch.Tensor
        assert bool((numbers == 1).all())
    for declared in (
        ab.torch(lambda x: x, output_type="input"),
        ab.torch(lambda x: x, output_type="input", slice_by_slice=True),
        ab.torch(lambda x: x, output_type="input", tiles=(1, 2)),
        ab.torch(lambda x: x),
        ab.torch(lambda x: x, output_type="input", keep=False),
        lambda data: ab.torch(lambda x, y: x)(np.ones(3), data),
        lambda data: ab.explain(data, "torch") if is_labelled else ab.torch(lambda x: x)([data]),
    ):
        with pytest.raises(ab.UnsupportedArrayError, match="in the unit m"):
            declared(data)
    if not is_labelled:
        with pytest.warns(ab.MetadataDroppedWarning, match="has no unit"):
            assert type(ab.convert(data, "torch")) is torch.Tensor


def test_steps_of_an_array_with_a_unit_are_refused(torch):
    def steps(x):
        yield x

    for quantity in quantities().values():
        with pytest.raises(ab.UnsupportedArrayError, match="gives arrays alone"):
            ab.torch(steps, output_type="input", keep=True)(quantity)


def test_a_scalar_with_a_unit_reaches_the_function_as_an_array(torch):
    half = ab.torch(lambda x: x.clone() / 2, output_type="input", keep=True)
    assert half(u.Quantity(np.float32(3), "m")) == u.Quantity(1.5, "m")


def test_masked_tiles_are_refused_by_name_wherever_they_come():
    stored = pytest.importorskip("zarr").create_array({}, shape=(4, 4), chunks=(2, 2), dtype="u2")
    data = np.ma.masked_equal(np.arange(16, dtype="float32").reshape(4, 4), 15)
    declared = ab.numpy(lambda x: x * 2, tiles=(2, 2))
    with pytest.raises(ab.UnsupportedArrayError, match="is masked .call filled"):
        declared(data)
    declared(np.ma.masked_array(data.data, mask=False), out=stored)
    assert np.array_equal(stored[:], data.data * 2)
