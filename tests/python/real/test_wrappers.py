"""Objects with an array inside: it is converted, and the result is in an object like the first."""

import concurrent.futures
import pickle
import sys
import warnings

import arraybridge as ab
import bridges
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

xarray = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
sitk = pytest.importorskip("SimpleITK")
dask = pytest.importorskip("dask.array")
u = pytest.importorskip("astropy.units")
unyt = pytest.importorskip("unyt")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("error::arraybridge.MetadataDroppedWarning")

IMAGE = np.arange(12, dtype="float32").reshape(3, 4)
DROPPED = ab.MetadataDroppedWarning


def labelled(data=IMAGE):
    coords = {"y": [0.5, 1.5, 2.5], "x": list("abcd"), "exposure": 7, "row": ("y", [1, 2, 3])}
    attrs = {"source": "camera"}
    return xarray.DataArray(data, coords=coords, dims=("y", "x"), name="image", attrs=attrs)


@ab.torch(output_type="input")
def double(image):
    assert isinstance(image, torch.Tensor)
    return image * 2


def test_a_data_array_keeps_dims_coords_attrs_and_name():
    result = double(labelled())
    assert xarray.DataArray(IMAGE * 2).equals(xarray.DataArray(result.data))
    expected = labelled(IMAGE * 2)
    assert result.identical(expected) and type(result.data) is np.ndarray
    assert double(image=labelled()).identical(expected)


@pytest.mark.parametrize("name", ("jax", "numpy"))
def test_the_array_inside_is_of_any_framework_and_stays_so(name):
    inside = bridges.make(name, IMAGE)
    with ab.trace() as records:
        result = double(labelled(inside))
    assert type(result.data) is type(inside)
    assert {record.source for record in records} == {name, "torch"}
    assert np.array_equal(np.asarray(result.data), IMAGE * 2)
    assert ab.explain(labelled(inside), "torch").source == name


def of(function, data=None, **options):
    data = labelled() if data is None else data
    return ab.numpy(output_type="input", **options)(function)(data)


def test_the_shape_of_the_lead_with_new_axes_and_a_number_keep_the_rest():
    for new, dims in (
        (lambda x: np.stack([x] * 5, -1), ("y", "x", "dim_2")),
        (lambda x: np.stack([x] * 2), ("dim_0", "y", "x")),
    ):
        found = of(new)
        assert found.dims == dims and found.isel({set(dims).difference("yx").pop(): 0}).identical(
            labelled()
        )
    total = of(lambda x: np.array(x.sum()))
    assert total.dims == () and float(total) == IMAGE.sum()
    assert set(total.coords) == {"exposure"} and total.attrs == labelled().attrs


@pytest.mark.parametrize(
    "measure",
    [
        lambda x: np.histogram(x, 3)[0],
        lambda x: x.max(0),
        lambda x: x.T,
        lambda x: x[:2],
        lambda x: np.concatenate([x, x]),
        lambda x: np.ones((3, 4, 4))[..., 0].T,
    ],
)
@pytest.mark.parametrize("make", (labelled, lambda: labelled().variable))
def test_equal_lengths_give_a_measurement_no_names_and_no_coordinates(measure, make):
    text = r"<lambda>\(\): .* no xarray.*: the axes of shape .* cannot be found .*apply_ufunc"
    with pytest.warns(DROPPED, match=text):
        result = of(measure, make())
    assert type(result) is np.ndarray and result.shape == measure(IMAGE).shape
    with pytest.raises(ab.UnsupportedArrayError, match="cannot be found"):
        of(measure, make(), keep="strict")
    with warnings.catch_warnings(action="error"):
        assert type(of(measure, make(), keep=False)) is np.ndarray
        assert type(of(lambda x: x, make(), keep=False)) is np.ndarray


def test_equal_lengths_in_slices_and_two_places_are_no_evidence():
    stack = xarray.DataArray(np.ones((2, 3, 4), "float32"), {"y": [1, 2, 3]}, ("t", "y", "x"))
    for data, function, options in (
        (stack, lambda x: np.histogram(x, 3)[0], {"slice_by_slice": True}),
        (stack[0, :, :3], lambda x: np.ones((3, 3, 3)), {}),
    ):
        with pytest.warns(DROPPED, match="cannot be found"):
            assert type(of(function, data, **options)) is np.ndarray
    assert of(lambda x: x * 2, stack, slice_by_slice=True).identical(stack * 2)
    assert of(lambda x: x * 2, stack, tiles=(2, 2)).identical(stack * 2)


def test_the_way_out_names_the_axes():
    largest = ab.torch(output_type="input")(lambda x: x.amax(-1))
    found = xarray.apply_ufunc(largest, labelled(), input_core_dims=[["y"]])
    assert found.equals(labelled().max("y"))
    owned = of(lambda x: xarray.DataArray(x.max(0), dims="column"))
    assert owned.dims == ("column",)


@pytest.mark.parametrize("make", (pd.DataFrame, pl.DataFrame, lambda a: pd.Series(a["n"])))
@pytest.mark.parametrize("keep", (None, True, "strict"))
def test_a_table_beside_an_image_is_what_the_function_made(make, keep):
    mask, table = of(lambda x: (x > 3, make({"n": [1, 2, 3]})), keep=keep)
    assert mask.identical(labelled() > 3) or mask.equals(labelled() > 3)
    assert type(table) is type(make({"n": [1]})) and len(table) == 3


def test_a_warning_is_given_at_the_call_and_once():
    flat = ab.torch(output_type="input")(lambda x: (x.T, x.T, 5))
    with pytest.warns(DROPPED) as caught:
        first, second, number = flat(labelled())
    assert len(caught) == 1 and caught[0].filename == __file__
    assert type(first) is type(second) is np.ndarray and number == 5


def test_each_array_of_a_tuple_is_in_an_object():
    two = ab.torch(output_type="input")(lambda x: (x, {"n": 1}, x + 1))
    first, others, second = two(labelled())
    assert first.identical(labelled()) and others == {"n": 1} and second.dims == ("y", "x")


SQUARE = xarray.DataArray(
    np.arange(9.0).reshape(3, 3), coords={"y": [1, 2, 3], "x": list("abc")}, dims=("y", "x")
)
ORDER = ab.LabelOrderWarning


def orders():
    frame = pd.DataFrame(SQUARE.values, index=list("abc"), columns=list("xyz"))
    return {
        "axes": (SQUARE, SQUARE.T, r"axes \('y', 'x'\) and \('x', 'y'\): .*transpose\('y', 'x'\)"),
        "variables": (SQUARE.variable, SQUARE.T.variable, "axes"),
        "among others": (SQUARE.expand_dims("t"), SQUARE.T, "axes"),
        "coordinates": (SQUARE, SQUARE[::-1], "along 'y' in another order: .*reindex_like"),
        "rows": (frame, frame[::-1], "along 'index'"),
        "columns": (frame, frame[["z", "x", "y"]], "along 'columns'"),
        "series": (frame["x"], frame["x"][::-1], "along 'index'"),
    }


@pytest.mark.parametrize("case", orders())
@pytest.mark.parametrize("nested", (False, True))
def test_labels_in_another_order_are_said_and_the_result_has_none(case, nested):
    one, other, text = orders()[case]
    summed = ab.torch(output_type="input")(
        (lambda both: both[0] + both[1]) if nested else (lambda a, b: a + b)
    )
    names = "'both' and 'both'" if nested else "'a' and 'b'"
    with pytest.warns(ORDER, match=f"the arguments {names} have .*{text}") as caught:
        result = summed([one, other]) if nested else summed(one, b=other)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert type(result) is np.ndarray
    assert np.array_equal(result, np.asarray(one) + np.asarray(other))


def test_the_way_out_of_another_order_gives_the_values_of_the_library():
    summed = ab.torch(output_type="input")(lambda a, b: a + b)
    turned = SQUARE.T[:, ::-1]
    with warnings.catch_warnings(action="error"):
        again = turned.transpose("y", "x").reindex_like(SQUARE)
        assert summed(SQUARE, again).identical(SQUARE + turned)
        assert summed(SQUARE, SQUARE.T.data).dims == ("y", "x")
        # What one of them lacks, and other labels, are left to the function.
        for other in (SQUARE[0], SQUARE.assign_coords(y=[7, 8, 9]), SQUARE.rename(y="z").T):
            assert summed(SQUARE, other).dims == ("y", "x")


def test_another_order_counts_in_parts_and_is_an_error_where_labels_must_be_kept():
    kept = ab.torch(output_type="input", keep=True)(lambda a, b: a + b)
    with pytest.warns(ORDER):
        assert type(kept(SQUARE.chunk(), SQUARE.T)) is not xarray.DataArray
    by_slice = ab.torch(output_type="input", slice_by_slice=True)(lambda a, b: a)
    with pytest.warns(ORDER):
        assert type(by_slice(SQUARE.expand_dims("t"), SQUARE.T)) is np.ndarray
    fixed = ab.torch(lambda a, b: a + b)
    with pytest.warns(ORDER):
        fixed(SQUARE, SQUARE.T)
    strict = ab.torch(output_type="input", keep="strict")(lambda a, b: a + b)
    with pytest.raises(ab.UnsupportedArrayError, match="'a' and 'b' have the axes"):
        strict(SQUARE, SQUARE.T)
    with pytest.warns(ORDER), pytest.warns(DROPPED, match="not labelled"):
        assert type(kept(xarray.Dataset({"a": SQUARE}), SQUARE.T)["a"]) is np.ndarray


def test_another_order_counts_in_arrays_that_are_read_part_by_part(tmp_path):
    zarr = pytest.importorskip("zarr")
    for name, dims in (("a", ("y", "x")), ("b", ("x", "y"))):
        zarr.create_array(f"{tmp_path}/{name}", data=IMAGE[:3, :3], dimension_names=dims)
    zarr.open_group(tmp_path)
    a, b = (
        xarray.open_zarr(tmp_path, chunks=None, consolidated=False)[name] for name in ("a", "b")
    )
    tiled = ab.numpy(output_type="input", tiles=(2, 2), sliced="b")(lambda a, b: a + b)
    with pytest.warns(ORDER, match="the arguments 'a' and 'b' have the axes"):
        assert type(tiled(a, b)) is np.ndarray
    with warnings.catch_warnings(action="error"):
        assert tiled(a, b.transpose("y", "x")).dims == ("y", "x")


def test_the_axes_of_a_data_set_have_no_order():
    kept = ab.torch(output_type="input", keep=True)(lambda a, b: a + b)
    data = xarray.Dataset({"a": SQUARE})
    with warnings.catch_warnings(action="error"):
        assert kept(data, SQUARE)["a"].dims == ("y", "x")


def test_a_variable_and_a_data_set():
    variable = xarray.Variable(("y", "x"), IMAGE, {"a": 1})
    assert double(variable).identical(xarray.Variable(("y", "x"), IMAGE * 2, {"a": 1}))
    index = xarray.Dataset(coords={"x": [1.0, 2.0]}).coords["x"].variable
    assert double(index).dims == ("x",) and double(index).values.tolist() == [2, 4]
    data = xarray.Dataset(
        {"image": labelled(), "line": ("x", IMAGE[0])}, attrs={"b": 2}, coords={"z": [1, 2]}
    )
    result = double(data)
    assert result.identical(
        data.map(lambda v: v * 2, keep_attrs=True).assign_attrs(b=2).assign_coords(z=[1, 2])
    )
    assert list(result.coords["z"]) == [1, 2]
    swapped = ab.convert(data, "numpy", dtype="float64", keep=True)
    assert swapped["image"].dtype == "float64" and swapped.attrs == {"b": 2}
    with pytest.raises(ab.UnsupportedArrayError, match="Dataset"):
        ab.convert(data, "torch")


OTHERS = {"text": np.array(["a", "b"]), "times": np.array(["2020-01-01"], "M8[ns]")}


@pytest.mark.parametrize("name", OTHERS)
def test_an_error_in_a_data_set_names_the_variable(name):
    data = xarray.Dataset({"image": labelled(), name: ("n", OTHERS[name])})
    text = rf"<lambda>\(\): argument 'x': variable '{name}': cannot convert from numpy to torch"
    with pytest.raises(ab.UnsupportedDtypeError, match=text) as caught:
        ab.torch(output_type="input")(lambda x: x)(data)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ab.UnsupportedDtypeError, match=rf"convert\(\): variable '{name}': cannot"):
        ab.convert(data, "jax", keep=True)
    with pytest.raises(ZeroDivisionError) as caught:
        ab.torch(output_type="input")(lambda x: 1 / 0)(data)
    assert caught.value.__notes__[0].endswith("<lambda>(): in the variable 'image'")


@pytest.mark.parametrize("frame", (pd.DataFrame, pl.DataFrame))
def test_an_error_of_a_table_names_the_columns_without_numbers(frame):
    table = frame({"a": [1.0, 2.0], "name": ["x", "y"], "when": np.array([0, 1], "M8[ns]")})
    with pytest.raises(ab.UnsupportedArrayError, match=r", without the columns \[.name., .when.\]"):
        double(table)


MIXED = [
    ({"on": [True, False], "n": [1.5, 2.0]}, [[1, 1.5], [0, 2]]),
    ({"on": [True, False], "n": [-3, 300]}, [[1, -3], [0, 300]]),
    ({"on": [True, False], "n": pd.array([1.5, None], "Float64")}, [[1, 1.5], [0, np.nan]]),
]


@pytest.mark.parametrize(("columns", "values"), MIXED)
def test_the_dtype_of_a_table_of_bools_and_numbers_is_that_which_is_asked_for(columns, values):
    table = pd.DataFrame(columns)
    way = r"pass .to_numpy\(\"float64\"\), or say dtype=\"float64\", which is input_dtype="
    with pytest.raises(ab.UnsupportedArrayError, match=way):
        ab.convert(table, "torch")
    found = ab.convert(table, "torch", dtype="float32")
    assert str(found.dtype) == "torch.float32"
    assert np.array_equal(found.numpy(), values, equal_nan=True)
    assert ab.explain(table, "torch", dtype="float32").dtype == "float32"
    doubled = ab.torch(output_type="input", input_dtype="float64")(lambda x: x * 2)(table)
    assert list(doubled) == list(table)
    assert np.array_equal(doubled, np.multiply(values, 2), equal_nan=True)


def test_a_table_that_has_no_numbers_for_a_dtype_is_refused_with_its_reason():
    missing = pd.DataFrame({"on": [True, False], "n": pd.array([1, None], "Int64")})
    large = pd.DataFrame({"on": [True, False], "n": [2**62 + 1, 0], "x": [0.5, 1.5]})
    text = pd.Series(["x", "y"])
    for data, why in [(missing, "to_numpy"), (large, "of n;"), (text, "make numbers of its val")]:
        with pytest.raises(ab.UnsupportedArrayError, match=why):
            ab.convert(data, "torch", dtype="float32")


def test_a_multi_index_stays():
    index = pd.MultiIndex.from_product([["a", "b"], [0, 1]], names=["k", "n"])
    data = xarray.DataArray(
        np.ones((4, 3)),
        dims=("s", "t"),
        coords=xarray.Coordinates.from_pandas_multiindex(index, "s"),
    )
    assert double(data).indexes["s"].equals(index)
    assert of(lambda x: np.stack([x, x]), data).indexes["s"].equals(index)


def test_series_and_frames():
    series = pd.Series([1.5, 2.5], index=["a", "b"], name="s")
    series.attrs["k"] = 1
    result = double(series)
    pd.testing.assert_series_equal(result, series * 2)
    assert result.attrs == {"k": 1}
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[7, 8])
    pd.testing.assert_frame_equal(double(frame), frame * 2)
    line = pl.Series("s", [1.5, 2.5])
    assert double(line).equals(line * 2) and double(line).name == "s"
    table = pl.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert double(table).equals(table * 2)
    total = ab.torch(output_type="input")(lambda x: x[:1])
    for data in (series, frame, table):
        with pytest.warns(DROPPED, match="its shape is"):
            assert type(total(data)) is np.ndarray


def test_an_image_keeps_its_geometry():
    image = sitk.GetImageFromArray(IMAGE)
    image.SetSpacing((0.5, 2.0))
    image.SetOrigin((3, 4))
    image.SetDirection((0, 1, 1, 0))
    image.SetMetaData("patient", "none")
    result = double(image)
    assert isinstance(result, sitk.Image)
    assert np.array_equal(sitk.GetArrayFromImage(result), IMAGE * 2)
    assert result.GetSpacing() == (0.5, 2.0) and result.GetOrigin() == (3, 4)
    assert result.GetDirection() == (0, 1, 1, 0) and result.GetMetaData("patient") == "none"
    with pytest.warns(DROPPED, match="its shape"):
        assert type(ab.torch(output_type="input")(lambda x: x[:2])(image)) is np.ndarray
    colour = sitk.GetImageFromArray(np.ones((3, 4, 3), "float32"), isVector=True)
    assert double(colour).GetNumberOfComponentsPerPixel() == 3
    grey = ab.torch(output_type="input")(lambda x: x.mean(-1))(colour)
    assert grey.GetNumberOfComponentsPerPixel() == 1 and grey.GetSize() == (4, 3)


def test_an_image_of_itk_keeps_its_geometry():
    # 80 MB, so it is not among the requirements.
    itk = pytest.importorskip("itk")
    image = itk.image_from_array(IMAGE.astype("uint16"))
    image.SetSpacing((0.5, 2.0))
    image.SetOrigin((3, 4))
    result = double(image)
    assert np.array_equal(itk.array_from_image(result), IMAGE * 2)
    assert tuple(result.GetSpacing()) == (0.5, 2.0) and tuple(result.GetOrigin()) == (3, 4)
    with pytest.warns(DROPPED, match="its shape"):
        assert type(ab.torch(output_type="input")(lambda x: x[:2])(image)) is np.ndarray


def test_the_array_of_an_image_keeps_the_image_alive():
    image = sitk.GetImageFromArray(IMAGE)
    array = ab.convert(image, "numpy")
    del image
    sitk.GetImageFromArray(np.full((3, 4), 9, "float32"))
    assert np.array_equal(array, IMAGE) and not array.flags.writeable
    image = sitk.GetImageFromArray(IMAGE)
    array = ab.convert(image, "numpy")
    image += 1
    image[0, 0] = 7
    sitk.GetImageFromArray(np.full((3, 4), 9, "float32"))
    assert np.array_equal(array, IMAGE)


UNITS = {
    "astropy": (lambda x: x * u.m, lambda x: x.unit == u.m),
    "unyt": (lambda x: unyt.unyt_array(x, "m"), lambda x: str(x.units) == "m"),
}


@pytest.mark.parametrize(("make", "has_unit"), UNITS.values(), ids=UNITS)
def test_a_unit_is_kept_where_the_declaration_says_so(make, has_unit):
    length = make(IMAGE)
    keeps = ab.torch(output_type="input", keep=True)(lambda x: x * 2)
    result = keeps(length)
    assert type(result) is type(length) and has_unit(result)
    assert result.dtype == "float32" and np.array_equal(result.value, IMAGE * 2)
    # Nobody says that the square of a length is a length.
    with pytest.raises(ab.UnsupportedArrayError, match="in the unit m .*keep=True"):
        ab.torch(output_type="input")(lambda x: x * x)(length)
    # NumPy computes with units itself.
    area = ab.numpy(output_type="input", keep=True)(lambda x: x * x)(length)
    assert not has_unit(area)


@pytest.mark.parametrize("make", [make for make, _ in UNITS.values()], ids=UNITS)
def test_a_conversion_says_that_it_drops_a_unit(make):
    length = make(IMAGE)
    with pytest.warns(DROPPED, match=r"convert\(\): .* unit") as caught:
        tensor = ab.convert(length, "torch")
    assert caught[0].filename == __file__
    assert tensor.equal(torch.from_numpy(IMAGE))
    assert ab.convert(length, "torch", keep=False).equal(tensor)
    with pytest.warns(DROPPED, match="holds NumPy arrays"):
        ab.convert(length, "torch", keep=True)
    with pytest.raises(ab.UnsupportedArrayError, match="holds NumPy arrays"):
        ab.convert(length, "torch", keep="strict")
    kept = ab.convert(length, "numpy", dtype="float64", keep=True)
    assert type(kept) is type(length) and kept.dtype == "float64"
    record = ab.explain(length, "torch")
    assert record.via.startswith(("astropy.units.Quantity, ", "unyt.unyt_array, "))
    assert (record.route, record.nbytes) == ("share", 48)


def test_convert_gives_the_array_or_swaps_it(jax):
    data = labelled()
    assert ab.convert(data, "torch").equal(torch.from_numpy(IMAGE))
    assert ab.convert(data, "torch").data_ptr() == data.data.ctypes.data
    swapped = ab.convert(data, "jax", keep=True)
    assert ab.detect_memory_type(swapped.data) == "jax" and swapped.equals(labelled())
    assert ab.convert(swapped, "numpy", keep=True).identical(data)
    with pytest.warns(DROPPED, match=r"convert\(\): .* cannot hold a torch.Tensor"):
        assert isinstance(ab.convert(data, "torch", keep=True), torch.Tensor)
    with pytest.raises(ab.UnsupportedArrayError, match="cannot hold a torch.Tensor"):
        ab.convert(data, "torch", keep="strict")
    assert ab.convert(IMAGE, "numpy", keep=True) is IMAGE
    with pytest.raises(TypeError, match="keep must be"):
        ab.convert(IMAGE, "numpy", keep="always")
    with pytest.raises(TypeError, match="keep must be"):
        ab.torch(keep="always")


def test_records_name_the_object():
    record = ab.explain(labelled(), "torch")
    assert record.via.startswith("xarray.DataArray, ")
    series = pd.Series([1.5])
    assert ab.explain(series, "torch").via.startswith("pandas.Series, ")
    collected = ab.trace()
    with collected as records:
        ab.convert(labelled(), "torch")
        ab.convert(IMAGE, "torch")
        double(labelled())
    assert records[0].via == record.via and "xarray" not in records[1].via
    assert collected.spans[0].via == "the lead is in xarray.DataArray"
    image = sitk.GetImageFromArray(IMAGE)
    assert ab.explain(image, "torch").via.startswith("SimpleITK.Image, ")


def test_other_arguments_are_taken_for_their_arrays():
    add = ab.torch(output_type="input")(lambda x, y, *, z: x + y + z)
    result = add(labelled(), labelled(), z=pd.DataFrame(IMAGE))
    assert result.identical(labelled(IMAGE * 3))
    assert type(add(IMAGE, labelled(), z=labelled())) is np.ndarray


def test_slices_and_methods_keep_it():
    stack = xarray.DataArray(np.stack([IMAGE, IMAGE + 1]), dims=("z", "y", "x"), attrs={"a": 1})
    assert double(stack, slice_by_slice=True).identical(stack.copy(data=stack.data * 2))

    class Filter:
        @ab.torch(output_type="input")
        def __call__(self, image):
            return image + 1

    assert Filter()(labelled()).identical(labelled(IMAGE + 1))
    cut = ab.torch(output_type="input", tiles=(2, 2))(lambda x: x * 2)
    assert cut(labelled()).identical(labelled(IMAGE * 2))


def test_generators_and_coroutines_say_that_they_give_arrays():
    @ab.torch(output_type="input")
    def steps(image):
        yield image

    with pytest.warns(DROPPED, match="a generator gives arrays alone"):
        assert type(next(steps(labelled()))) is np.ndarray


def test_labels_of_a_file_are_kept_and_its_array_is_no_memory_of_the_caller(tmp_path):
    xarray.Dataset({"image": labelled()}).to_netcdf(tmp_path / "a.nc", engine="scipy")
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy", cache=False) as file:
        result = double(file["image"])
        xarray.testing.assert_identical(result, file["image"].copy(data=IMAGE * 2))
        assert double(file)["image"].identical(result)
        with pytest.raises(ab.CopyRequiredError, match="gives NumPy a copy"):
            ab.convert(file["image"], "torch", copy=False)
    shared = ab.convert(labelled(), "torch", copy=False)
    assert shared.data_ptr() == IMAGE.ctypes.data


# Arrays that are computed later ---------------------------------------------------------------


def lazy(data=IMAGE, chunks=(2, 2)):
    return dask.from_array(data, chunks=chunks)


def test_a_dask_array_stays_lazy_where_the_function_may_be_called_for_each_block():
    calls = []

    @ab.torch(output_type="input", keep=True, dtype_conversion="preserve")
    def plus(image):
        calls.append(image.shape)
        return image + 1

    result = plus(lazy())
    assert isinstance(result, dask.Array) and not calls and result.dtype == "float32"
    assert result.chunks == lazy().chunks
    assert np.array_equal(result.compute(scheduler="synchronous"), IMAGE + 1) and len(calls) == 4
    # The labels of a lazy data array are kept, too.
    labels = plus(labelled(lazy()))
    assert labels.chunks is not None and labels.compute().identical(labelled(IMAGE + 1))
    both = xarray.Dataset({"a": labelled(lazy()), "b": labelled()})
    assert plus(both)["a"].chunks is not None and plus(both)["b"].chunks is None


def test_a_function_of_the_whole_image_is_not_called_for_blocks():
    norm = ab.torch(output_type="input")(lambda x: x / x.max())
    with pytest.raises(
        ab.UnsupportedArrayError, match=r"pass .compute\(\), or declare tiles=.*keep"
    ):
        norm(lazy())
    with pytest.raises(ab.UnsupportedArrayError, match="computation that has not run"):
        ab.convert(lazy(), "torch")
    one = norm(lazy(chunks=(3, 4)))
    assert np.array_equal(one.compute(), IMAGE / IMAGE.max())


def test_tiles_with_a_halo_see_beyond_their_block():
    def smooth(image):
        return torch.nn.functional.avg_pool2d(image[None, None], 3, 1, 1, False, False)[0, 0]

    big = np.random.default_rng(0).random((40, 30), "float32")
    tiled = ab.torch(output_type="input", tiles=(8, 8), halo=1)(smooth)
    result = tiled(lazy(big, (16, 10)))
    assert isinstance(result, dask.Array) and result.dtype == "float32"
    np.testing.assert_allclose(result.compute(), tiled(big), rtol=1e-6)
    blocks = ab.torch(output_type="input", keep=True)(smooth)(lazy(big, (16, 10)))
    assert not np.allclose(blocks.compute(), tiled(big))


@pytest.mark.parametrize("axes", ((-2, -1), (0, 1)))
def test_slices_are_whole_in_a_block(axes):
    stack = np.arange(24, dtype="float32").reshape(2, 3, 4)
    norm = ab.torch(output_type="input", slice_axes=axes)(lambda x: x / x.max())
    result = norm(lazy(stack, (1, 2, 2)), slice_by_slice=True)
    assert isinstance(result, dask.Array)
    assert np.array_equal(result.compute(), norm(stack, slice_by_slice=True))


def test_tiles_of_slices_are_cut_along_the_axes_of_a_slice():
    stack = np.random.default_rng(0).random((12, 10, 4), "float32")
    shapes = set()

    def smooth(image):
        shapes.add(image.shape)
        return ndimage.uniform_filter(image, 3, mode="nearest")

    options = {"output_type": "input", "slice_by_slice": True, "tiles": (6, 4), "halo": 1}
    for axes in ((0, 1), (0, 2), (-2, -1)):
        tiled = ab.numpy(smooth, slice_axes=axes, **options)
        result = tiled(lazy(stack, (5, 3, 2)))
        # Axes that count slices keep their blocks.
        for axis in {0, 1, 2} - {axis % 3 for axis in axes}:
            assert result.chunks[axis] == lazy(stack, (5, 3, 2)).chunks[axis]
        assert np.array_equal(result.compute(scheduler="sync"), tiled(stack))
        assert {len(shape) for shape in shapes} == {2}
    with pytest.raises(ab.UnsupportedArrayError, match="tiles are for the last 3 axes"):
        ab.numpy(smooth, output_type="input", tiles=(6, 4, 2))(lazy(stack[0]))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_blocks_give_what_the_whole_array_gives(data):
    """The function of a tile looks as far as the halo, in all directions."""
    axes = data.draw(st.integers(1, 3))
    shape = data.draw(st.lists(st.integers(1, 12), min_size=axes, max_size=axes))
    chunks = [data.draw(st.integers(1, n)) for n in shape]
    image = np.random.default_rng(0).integers(0, 200, shape).astype("uint8")
    by_slice = axes > 1 and data.draw(st.booleans())
    inner = list(range(axes))
    options = {"output_type": "input", "halo": data.draw(st.integers(1, 4))}
    if by_slice:
        inner = data.draw(st.lists(st.sampled_from(inner), min_size=1, max_size=axes, unique=True))
        options |= {"slice_by_slice": True, "slice_axes": tuple(inner)}
    length = st.one_of(st.none(), st.integers(1, 8))
    tiles = data.draw(st.lists(length, min_size=1, max_size=len(inner)))
    options["tiles"] = tuple(tiles) if any(tiles) else (3,)
    if data.draw(st.booleans()):
        options["pad"] = "edge"
    size = [1] * (len(inner) - len(options["tiles"]))
    size += [1 if tile is None else 2 * options["halo"] + 1 for tile in options["tiles"]]

    def largest(part):
        return ndimage.maximum_filter(part, size, mode="nearest")

    declared = ab.numpy(largest, **options)
    by_axes = {name: options[name] for name in options if name.startswith("slice")}
    whole = ab.numpy(largest, **by_axes)(image)
    assert np.array_equal(declared(image), whole)
    result = declared(lazy(image, tuple(chunks)))
    assert isinstance(result, dask.Array) and result.dtype == image.dtype
    assert np.array_equal(result.compute(scheduler="sync"), whole)


def test_dtypes_of_blocks_are_those_of_the_declaration():
    of = ab.torch(output_type="input", keep=True, dtype_conversion="uint8")(lambda x: x)
    assert of(lazy()).dtype == "uint8" and of(lazy()).compute().dtype == "uint8"
    mask = ab.torch(output_type="input", keep=True)(lambda x: x > 5)
    assert mask(lazy()).dtype == bool and mask(lazy()).compute().dtype == bool
    short = ab.torch(output_type="input", keep=True)(lambda x: x[:1])
    with pytest.raises(
        ab.UnsupportedArrayError, match=r"the result of a block of shape .* is of the shape"
    ):
        short(lazy()).compute()


def test_other_dask_arrays_come_block_by_block():
    add = ab.torch(output_type="input", keep=True)(lambda x, y, *, z: x + y * z)
    result = add(lazy(), lazy(chunks=(3, 1)), z=2)
    assert np.array_equal(result.compute(), IMAGE * 3)
    with pytest.raises(ab.UnsupportedArrayError, match="is computed before: .2, 4. is not .3, 4."):
        add(lazy(), lazy(IMAGE[:2]), z=2)


CUBE = np.arange(24, dtype="float32").reshape(2, 3, 4)
NO_BLOCK = {
    "tuple": lambda x: (x, x),
    "list": lambda x: [x, x],
    "number": lambda x: float(x.max()),
    "scalar": lambda x: x.max(),
    "no axes": lambda x: np.array(x.max()),
}


@pytest.mark.parametrize("name", NO_BLOCK)
@pytest.mark.parametrize("options", ({"keep": True}, {"slice_by_slice": True}), ids=str)
@pytest.mark.parametrize("conversion", (None, "preserve"))
def test_a_result_that_is_no_block_is_refused_by_name(name, options, conversion):
    declared = ab.numpy(NO_BLOCK[name], output_type="input", dtype_conversion=conversion, **options)
    with pytest.raises(ab.UnsupportedArrayError, match=r"result of a block .* pass .compute\(\)"):
        declared(lazy(CUBE, (1, 2, 2))).compute(scheduler="sync")


def test_slices_of_labelled_dask_arrays_are_cut_by_name():
    data = xarray.DataArray(lazy(CUBE, (1, 2, 2)), dims=("t", "y", "x"), coords={"t": [5, 6]})
    for named in (("y", "x"), ("t", "x"), ("t", "y")):
        centred = ab.torch(
            lambda x: x - x.mean(), output_type="input", slice_by_slice=True, slice_axes=named
        )
        result = centred(data)
        assert result.chunks is not None
        expected = data.compute() - data.compute().mean(named)
        xarray.testing.assert_allclose(result.compute(), expected.transpose("t", "y", "x"))
    for bare in (data.data, data.rename(x="v")):
        with pytest.raises(ab.UnsupportedArrayError, match="slice_axes is .*give them by index"):
            ab.torch(lambda x: x, output_type="input", slice_by_slice=True, slice_axes=("y", "x"))(
                bare
            )


LINE = np.array([10.0, 20.0], "float32")
PARTS = {
    "slices": ({"slice_by_slice": True, "sliced": "m"}, CUBE[::-1], CUBE[::-1]),
    "a value for each slice": ({"slice_by_slice": True, "sliced": "m"}, LINE, LINE[:, None, None]),
    "a list of values": ({"slice_by_slice": True, "sliced": "m"}, [10, 20], LINE[:, None, None]),
    "tiles": ({"tiles": (2, 2), "sliced": ["m"]}, CUBE[::-1], CUBE[::-1]),
    "a halo": ({"tiles": (2, 2), "halo": 1, "sliced": "m"}, CUBE[::-1], CUBE[::-1]),
    "each pixel": ({"keep": True}, CUBE[::-1], CUBE[::-1]),
    "a kernel": ({"slice_by_slice": True}, np.float32([[3]]), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("is_named", (True, False))
@pytest.mark.parametrize("is_lazy", (True, False))
def test_what_is_cut_with_a_dask_array_is_cut_as_its_blocks_are(name, is_named, is_lazy):
    options, other, expected = PARTS[name]
    if is_lazy:
        if np.shape(other) != CUBE.shape:
            pytest.skip("a plain array")
        other = dask.from_array(other, (2, 1, 4))
    declared = ab.torch(lambda x, m: x * 2 - m, output_type="input", **options)
    data = lazy(CUBE, (1, 2, 2))
    result = declared(data, m=other) if is_named else declared(data, other)
    assert np.array_equal(result.compute(scheduler="sync"), CUBE * 2 - expected)
    if "sliced" in options:
        with pytest.raises(ab.UnsupportedArrayError, match="computed before: .5,. is not"):
            declared(data, np.ones(5))


def test_what_depends_on_the_values_of_all_blocks_is_refused():
    data = np.arange(24, dtype="uint8").reshape(2, 3, 4)
    options = {"scaling": "stretch", "tiles": (2, 2), "output_type": "input"}
    stretched = ab.numpy(**options)(lambda image: image / 2)
    with pytest.raises(ab.UnsupportedArrayError, match="smallest and the largest .*compute"):
        stretched(lazy(data, (1, 2, 2)))
    whole = stretched(lazy(data, data.shape))
    assert np.array_equal(whole.compute(), stretched(data))
    # Nothing is stretched where floats stay floats.
    assert stretched(lazy(data.astype("f4"), (1, 2, 2))).compute().max() == 11.5
    native = ab.numpy(lambda image: image + 1, dtype_conversion="native", **options)
    assert native(lazy(data, (1, 2, 2))).compute().max() == 24


def test_what_a_dask_array_is_written_to_is_refused_with_the_way_out():
    out = np.zeros_like(CUBE)
    declared = ab.numpy(lambda x: x * 2, tiles=(2, 2), output_type="input")
    data = lazy(CUBE, (1, 2, 2))
    with pytest.raises(TypeError, match=r"<lambda>\(\): out is for one array.*dask.array.store"):
        declared(data, out=out)
    dask.store(declared(data), out)
    assert np.array_equal(out, CUBE * 2)


def test_blocks_are_computed_by_the_policy_of_their_call():
    data = lazy(CUBE.astype("uint16"), (1, 2, 2))
    declared = ab.numpy(lambda x: x / np.float32(CUBE.max()), output_type="input", keep=True)
    with ab.dtype_policy(dtype_conversion="native"):
        result = declared(data)
    assert result.dtype == result.compute().dtype == "float32"
    with ab.dtype_policy(scaling="unit"):
        result = declared(data)
    with ab.dtype_policy(dtype_conversion="native"):
        assert result.dtype == result.compute().dtype == "uint16"
    ones = ab.numpy(np.float32, output_type="input", keep=True, dtype_conversion="preserve")
    assert ones(data > 1).dtype == ones(data > 1).compute().dtype == "float32"


async def later(x):
    return x


def steps(x):
    yield x


@pytest.mark.parametrize("function", (later, steps))
@pytest.mark.parametrize(
    "data", (xarray.Dataset({"a": labelled()}), lazy()), ids=("data set", "dask")
)
def test_steps_of_an_object_with_several_arrays_are_refused_by_name(function, data):
    with pytest.raises(
        ab.UnsupportedArrayError, match="gives arrays alone; call it for each array"
    ):
        ab.torch(function, output_type="input")(data)


def test_calls_of_blocks_are_pickled():
    import cloudpickle

    plus = ab.torch(output_type="input", keep=True)(lambda x, n: x + n)
    result = cloudpickle.loads(cloudpickle.dumps(plus(lazy(), n=1)))
    assert np.array_equal(result.compute(scheduler="threads"), IMAGE + 1)


def test_blocks_that_dask_cannot_join_are_refused(jax):
    same = ab.convert(lazy(), "numpy", dtype="float64", keep=True)
    assert isinstance(same, dask.Array) and same.dtype == "float64"
    assert np.array_equal(same.compute(), IMAGE)
    with pytest.raises(ab.UnsupportedArrayError, match="dask joins blocks of jax"):
        ab.convert(lazy(), "jax", keep=True)


# Classes of others ----------------------------------------------------------------------------


class Scan:
    def __init__(self, pixels, name="scan"):
        self.pixels, self.name = pixels, name


def rescanned(scan, array):
    if array.ndim != 2:
        raise ValueError(f"a scan has two axes, and the array {array.ndim}")
    return Scan(array, scan.name)


def test_a_class_can_be_registered_after_its_first_use(registered):
    scan = Scan(IMAGE, "one")
    with pytest.raises(ab.UnsupportedArrayError):
        ab.convert(scan, "torch")
    assert ab.torch(lambda x, scan: scan)(IMAGE, scan) is scan
    ab.register_wrapper(Scan, lambda scan: scan.pixels, rescanned)
    assert ab.convert(scan, "torch").equal(torch.from_numpy(IMAGE))
    result = double(scan)
    assert result.name == "one" and np.array_equal(result.pixels, IMAGE * 2)
    with pytest.warns(DROPPED, match="a scan has two axes, and the array 1"):
        ab.torch(output_type="input")(lambda x: x[0])(scan)

    class Sub(Scan):
        pass

    assert type(double(Sub(IMAGE))) is Scan
    assert isinstance(ab.convert(scan, "torch", keep=True).pixels, torch.Tensor)
    assert ab.stack_slices([scan, scan], "numpy").shape == (2, 3, 4)
    assert np.array_equal(np.from_dlpack(ab.Tensor(scan)), IMAGE)
    assert ab.convert_tree({"a": scan}, "torch", keep=True)["a"].name == "one"


def test_a_class_is_registered_by_its_name_and_imports_nothing(registered):
    ab.register_wrapper("some_absent.module.Scan", lambda scan: scan.pixels, rescanned)
    assert "some_absent" not in sys.modules
    ab.register_wrapper(f"{__name__}.Scan", lambda scan: scan.pixels, rescanned)
    assert double(Scan(IMAGE)).pixels[1, 1] == 10


def test_ours_are_replaced_by_others(registered):
    ab.register_wrapper("xarray.DataArray", lambda a: a.data, lambda a, array: ("mine", array))
    assert double(labelled())[0] == "mine"
    code = """
import numpy, arraybridge as ab
ab.register_wrapper("xarray.DataArray", lambda a: a.data, lambda a, array: "mine")
import xarray
assert ab.convert(xarray.DataArray(numpy.ones(3)), "numpy", dtype="int8", keep=True) == "mine"
"""
    bridges.survives(code)


def test_a_class_that_is_not_registered_is_said_where_it_is_to_be_kept():
    memory = memoryview(IMAGE)
    with pytest.warns(DROPPED, match="no memoryview: its class is not registered"):
        ab.convert(memory, "numpy", keep=True)
    with pytest.raises(ab.UnsupportedArrayError, match="not registered"):
        ab.convert(memory, "numpy", keep="strict")


def test_other_errors_of_the_functions_are_not_hidden(registered):
    ab.register_wrapper(Scan, lambda scan: 1 / 0, rescanned)
    with pytest.raises(ZeroDivisionError):
        ab.convert(Scan(IMAGE), "torch")
    with pytest.raises(ZeroDivisionError):
        double(Scan(IMAGE))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((5, None, rescanned), "cls must be a class"),
        (("Scan", None, rescanned), "name the module too"),
        ((Scan, None, None), "rewrap must be a function"),
        ((Scan, 5, rescanned), "unwrap must be a function"),
    ],
)
def test_arguments_of_a_registration(arguments, text):
    with pytest.raises(TypeError, match=text):
        ab.register_wrapper(*arguments)


def test_nothing_is_imported():
    code = """
import sys, numpy, arraybridge as ab
class Like:
    def __array__(self, dtype=None, copy=None): return numpy.ones(3)
ab.convert(Like(), "numpy")
ab.convert_tree({"a": numpy.ones(3), "b": object()}, "numpy")
names = {"xarray", "pandas", "polars", "astropy", "unyt", "SimpleITK", "itk", "dask", "optree"}
assert not names & set(sys.modules), names & set(sys.modules)
"""
    bridges.survives(code)


def test_threads_do_not_see_each_others_objects():
    def is_named(data):
        return ["xarray" in ab.explain(data, "torch").via for _ in range(50)]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        inside, *plain = pool.map(is_named, (labelled(), IMAGE, IMAGE))
    assert all(inside) and not any(map(any, plain))


def test_a_wrapper_of_a_wrapper_without_end_is_an_error():
    bridges.survives("""
        import arraybridge as ab

        class Endless:
            pass

        ab.register_wrapper(Endless, lambda data: Endless(), lambda old, array: array)
        for ask in (ab.convert, ab.explain):
            try:
                ask(Endless(), "numpy")
            except (RecursionError, ab.MemoryConversionError) as error:
                print(type(error).__name__)
            else:
                raise SystemExit(1)
    """)


def test_out_of_a_call_in_parts_is_refused():
    pair = xarray.Dataset({"a": labelled(), "b": labelled()})
    declared = ab.numpy(lambda part: part, tiles=(2, 2), output_type="input")
    with pytest.raises(TypeError, match="out is for one array"):
        declared(pair, out=np.zeros(IMAGE.shape, IMAGE.dtype))


def test_new_axes_have_names_of_their_own():
    unnamed = xarray.DataArray(np.ones((3, 4)))
    stacked = ab.numpy(lambda image: np.ones((5, 3, 4)), output_type="input")(unnamed)
    assert len(set(stacked.dims)) == 3 and stacked.dims[1:] == ("dim_0", "dim_1")


def test_a_class_that_is_registered_while_it_is_looked_up_is_known_afterwards(monkeypatch):
    """As where one thread registers a class and another one has an object of it."""
    from arraybridge import wrappers

    class Late:
        pixels = IMAGE

    is_called = wrappers._is_called

    def register(*arguments):
        monkeypatch.setattr(wrappers, "_is_called", is_called)
        ab.register_wrapper(Late, lambda late: late.pixels, lambda late, array: array)
        return is_called(*arguments)

    monkeypatch.setattr(wrappers, "_is_called", register)
    with pytest.raises(ab.UnsupportedArrayError):
        ab.convert(Late(), "torch")
    assert ab.convert(Late(), "torch").tolist() == IMAGE.tolist()


def test_missing_values_of_polars_stay_missing():
    series = pl.Series("n", [1, None, 3])
    if series.is_null() is None:
        pytest.skip("the methods of this polars return None on this CPython")
    found = ab.torch(output_type="input", dtype_conversion="native")(lambda x: x * 2)(series)
    assert found.equals(pl.Series("n", [2.0, None, 6.0]), check_dtypes=True)
    filled = ab.torch(output_type="input")(lambda x: x.nan_to_num(7.0))(series)
    assert filled.to_list() == [1.0, 7.0, 3.0]
    new = ab.torch(output_type="input")(lambda x: x / 0 * 0)(series.fill_null(2).cast(pl.Float64))
    assert new.null_count() == 0 and new.is_nan().all()
    table = pl.DataFrame({"a": [1, None, 3], "b": [1.0, 2.0, float("nan")]})
    found = ab.torch(output_type="input")(lambda x: x * 2)(table)
    assert found.null_count().row(0) == (1, 0) and found["b"].is_nan().to_list()[2]
    found = ab.convert(series, "numpy", dtype="float32", keep=True)
    assert found.to_list() == [1.0, None, 3.0] and found.dtype == pl.Float32


def test_what_is_given_for_a_result_is_the_result_of_an_array_with_a_unit():
    kept = ab.torch(output_type="input", keep=True, tiles=(2, 2))(lambda x: x * 2)
    out = np.zeros((3, 4), "float32")
    assert kept(IMAGE * u.m, out=out) is out
    assert np.array_equal(out, IMAGE * 2)
    # A parameter of the function's own may have the name as well.
    own = ab.torch(output_type="input", keep=True)(lambda x, out: x * 2)
    assert (own(IMAGE * u.m, out=out) == IMAGE * 2 * u.m).all()


def test_what_is_returned_beside_out_keeps_its_labels():
    stack = xarray.DataArray(np.stack([IMAGE, IMAGE]), dims=("t", "y", "x"))
    both = ab.torch(output_type="input", slice_by_slice=True)(lambda x: (x * 2, x + 1))
    out = np.zeros(stack.shape, "float32")
    first, second = both(stack, out=out)
    assert first is out and np.array_equal(out, stack * 2)
    assert second.identical(stack + 1)


def test_a_result_is_not_written_to_other_labels():
    square = labelled()[:, :3]
    tiled = ab.torch(output_type="input", tiles=(2, 2))(lambda x: x * 2)
    out = xarray.zeros_like(square)
    assert tiled(square, out=out) is out and out.identical(square * 2)
    turned = xarray.DataArray(np.zeros((3, 3), "float32"), dims=("x", "y"))
    with pytest.raises(ValueError, match=r"out has the axes \('x', 'y'\).*pass out.transpose"):
        tiled(square, out=turned)
    assert not turned.any()
    tiled(square, out=turned.transpose("y", "x"))
    assert np.array_equal(turned.T, square * 2)
    other = square.assign_coords(y=[0, 1, 2]) * 0
    with pytest.raises(ValueError, match="other coordinates along 'y'"):
        tiled(square, out=other)
    assert not other.any()
    tiled(square, out=other.variable)
    assert np.array_equal(other, square * 2)
    # An axis without coordinates, or with another name, says nothing.
    for unlabelled in (square.drop_vars(["y", "x"]) * 0, square.rename(y="v", x="w") * 0):
        tiled(square, out=unlabelled)
        assert np.array_equal(unlabelled, square * 2)
    stack = xarray.DataArray(np.stack([IMAGE, IMAGE], -1), dims=("y", "x", "c"))
    grey = xarray.DataArray(np.zeros((3, 4), "float32"), dims=("y", "x"))
    ab.torch(tiles=(2, 2, None))(lambda x: x.sum(-1))(stack, out=grey)
    assert np.array_equal(grey, IMAGE * 2)


def test_an_object_that_is_no_place_for_results_is_refused(tmp_path):
    pytest.importorskip("zarr")
    tiled = ab.torch(output_type="input", tiles=(2, 2))(lambda x: x * 2)
    with pytest.raises(TypeError, match="out must be an array with shape, dtype and __setitem__"):
        tiled(IMAGE, out=pd.DataFrame(np.zeros((3, 4))))
    # xarray would write to a copy in memory.
    xarray.Dataset({"a": (("y", "x"), IMAGE * 0)}).to_zarr(tmp_path, consolidated=False)
    opened = xarray.open_zarr(tmp_path, chunks=None, consolidated=False)["a"]
    for out in (opened, opened.variable, opened.chunk(x=2)):
        with pytest.raises(TypeError, match="xarray does not write to what it was read from"):
            tiled(IMAGE, out=out)
    assert tiled(IMAGE, out=opened.load()) is opened and np.array_equal(opened, IMAGE * 2)
