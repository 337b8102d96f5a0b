"""Functions in Rust whose first array is in an object: the result is in one like it."""

import pickle

import arraybridge as ab
import bridges
import numpy as np
import pytest
from scipy import ndimage

xarray = pytest.importorskip("xarray")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
sitk = pytest.importorskip("SimpleITK")
dask = pytest.importorskip("dask.array")
u = pytest.importorskip("astropy.units")
unyt = pytest.importorskip("unyt")

pytestmark = pytest.mark.filterwarnings("error::arraybridge.MetadataDroppedWarning")

IMAGE = np.arange(12, dtype="float64").reshape(3, 4)
DROPPED = ab.MetadataDroppedWarning


class Scan:
    def __init__(self, pixels, patient):
        self.pixels, self.patient = pixels, patient


@pytest.fixture(autouse=True)
def _with_scan(registered):
    ab.register_wrapper(Scan, lambda scan: scan.pixels, lambda scan, a: Scan(a, scan.patient))


def labelled(data=IMAGE):
    coords = {"y": [0.5, 1.5, 2.5], "x": list("abcd"), "exposure": 7}
    return xarray.DataArray(data, coords, ("y", "x"), name="image", attrs={"source": "camera"})


def framed(data=IMAGE):
    frame = pd.DataFrame(data, index=["r", "s", "t"], columns=list("abcd"))
    frame.attrs = {"source": "camera"}
    return frame


def in_space(data=IMAGE):
    image = sitk.GetImageFromArray(data)
    image.SetSpacing((0.5, 2.0))
    image.SetOrigin((3.0, 4.0))
    image.SetDirection((0.0, 1.0, -1.0, 0.0))
    image.SetMetaData("source", "camera")
    return image


def assert_same_image(found, expected):
    assert type(found) is sitk.Image
    for name in ("GetSpacing", "GetOrigin", "GetDirection", "GetSize", "GetPixelID"):
        assert getattr(found, name)() == getattr(expected, name)()
    assert found.GetMetaData("source") == "camera"
    assert np.array_equal(sitk.GetArrayFromImage(found), sitk.GetArrayFromImage(expected))


def test_labels_and_a_geometry_stay(ext):
    assert ext.scaled(labelled()).identical(labelled(IMAGE * 2))
    assert ext.scaled(labelled(), 3.0).identical(labelled(IMAGE * 3))
    assert ext.scaled(image=labelled(), by=3.0).identical(labelled(IMAGE * 3))
    variable = xarray.Variable(("y", "x"), IMAGE, {"a": 1})
    assert ext.scaled(variable).identical(xarray.Variable(("y", "x"), IMAGE * 2, {"a": 1}))
    found = ext.scaled(framed())
    pd.testing.assert_frame_equal(found, framed(IMAGE * 2))
    assert found.attrs == {"source": "camera"}
    series = pd.Series(IMAGE[0], index=list("abcd"), name="n")
    pd.testing.assert_series_equal(ext.scaled(series), series * 2)
    assert ext.scaled(pl.Series("n", IMAGE[0])).equals(pl.Series("n", IMAGE[0] * 2))
    table = pl.DataFrame({"a": IMAGE[:, 0], "b": IMAGE[:, 1]})
    assert ext.scaled(table).equals(table * 2)
    assert_same_image(ext.scaled(in_space()), in_space(IMAGE * 2))
    scan = ext.scaled(Scan(IMAGE, "A"))
    assert scan.patient == "A" and np.array_equal(scan.pixels, IMAGE * 2)


def test_a_data_set_is_taken_apart(ext):
    data = xarray.Dataset(
        {"image": labelled(), "line": ("x", IMAGE[0])}, coords={"z": [1, 2]}, attrs={"b": 2}
    )
    found = ext.scaled(data)
    expected = data.map(lambda variable: variable * 2, keep_attrs=True)
    assert found.identical(expected.assign_coords(z=[1, 2]).assign_attrs(b=2))
    mixed = data.assign(mask=("x", np.array([1, 0, 1, 0], "uint8")))
    with pytest.raises(TypeError, match="float64 array, not a 1-dimensional uint8 one"):
        ext.scaled(mixed)


@pytest.mark.parametrize("name", ("jax", "numpy"))
def test_the_array_inside_stays_in_its_framework(ext, name):
    inside = bridges.make(name, IMAGE.astype("float32"))
    collected = ab.trace()
    with collected:
        found = ext.doubled_with_its_unit(labelled(inside))
    assert type(found.data) is type(inside) and found.name == "image"
    assert np.array_equal(np.asarray(found.data), IMAGE * 2)
    assert list(found.y.values) == [0.5, 1.5, 2.5]
    assert [span.via for span in collected.spans] == ["the lead is in xarray.DataArray"]


def test_a_tensor_that_is_returned_as_it_is(ext):
    found = ext.same(labelled())
    assert found.identical(labelled()) and np.shares_memory(found.data, IMAGE)


def test_what_cannot_be_kept_is_said_once(ext):
    with pytest.warns(DROPPED, match=r"rows_of\(\): .* no xarray.DataArray: the axes") as caught:
        rows, turned, count = ext.rows_of(labelled(IMAGE.astype("float32")))
    assert len(caught) == 1 and caught[0].filename == __file__
    assert type(rows) is np.ndarray and rows.tolist() == [6, 22, 38] and count == 3
    assert type(turned) is np.ndarray and np.array_equal(turned, IMAGE.T)
    with pytest.raises(ab.UnsupportedArrayError, match=r"turned_strictly\(\).*cannot be found"):
        ext.turned_strictly(labelled())
    assert type(ext.turned_alone(labelled())) is np.ndarray
    assert type(ext.turned_alone(framed())) is np.ndarray


def test_a_unit_stays_where_the_function_says_so(ext):
    found = ext.doubled_with_its_unit(IMAGE * u.m)
    assert found.unit == u.m and np.array_equal(found.value, IMAGE * 2)
    found = ext.doubled_with_its_unit(unyt.unyt_array(IMAGE, "m"))
    assert found.units == unyt.m and np.array_equal(found.value, IMAGE * 2)
    for quantity in (IMAGE * u.m, unyt.unyt_array(IMAGE, "m")):
        with pytest.raises(ab.UnsupportedArrayError, match="in the unit m") as raised:
            ext.scaled(quantity)
        assert "pass its value" in str(raised.value)


def test_a_dask_array_stays_lazy(ext):
    image = np.random.default_rng(1).random((10, 12)).astype("float32")
    expected = ndimage.maximum_filter(image, 3, mode="nearest")
    later = ext.dilated(dask.from_array(image, chunks=(5, 4)))
    assert isinstance(later, dask.Array) and later.dtype == "float32"
    assert np.array_equal(later.compute(), expected)
    inside = xarray.DataArray(dask.from_array(image, chunks=(5, 4)), dims=("y", "x"), name="n")
    found = ext.dilated(inside)
    assert isinstance(found.data, dask.Array) and found.name == "n" and found.dims == ("y", "x")
    assert np.array_equal(found.values, expected)
    later = ext.doubled_with_its_unit(dask.from_array(image, chunks=(5, 4)))
    assert np.array_equal(later.compute(), image * 2)
    with pytest.raises(ab.UnsupportedArrayError, match=r"scaled\(\).*has not run"):
        ext.scaled(dask.from_array(image, chunks=(5, 4)))


def test_slices_and_tiles_keep_labels(ext):
    stack = np.random.default_rng(2).random((2, 9, 10)).astype("float32")
    data = xarray.DataArray(stack, dims=("z", "y", "x"), coords={"z": [1, 2]}, attrs={"a": 1})
    found = ext.dilated(data, slice_by_slice=True)
    expected = np.stack([ndimage.maximum_filter(image, 3, mode="nearest") for image in stack])
    assert found.identical(data.copy(data=expected))
    out = np.zeros((9, 10), "float32")
    assert ext.dilated(data[0], out=out) is out
    assert np.array_equal(out, expected[0])


def test_objects_in_a_list_and_other_arguments(ext):
    found = ext.mean_of([framed().astype("float32"), framed(IMAGE * 3).astype("float32")])
    pd.testing.assert_frame_equal(found, framed(IMAGE * 2).astype("float32"))
    assert ext.weighed(labelled(), labelled(IMAGE)).identical(labelled(IMAGE**2))
    found = ext.weighed(IMAGE, labelled())
    assert type(found) is np.ndarray and np.array_equal(found, IMAGE**2)
    # What is written to is the caller's own memory, in an object or not.
    out = labelled(np.zeros((3, 4)))
    assert ext.weighed(labelled(), IMAGE, out).identical(labelled(IMAGE**2))
    assert out.identical(labelled(IMAGE**2))


def test_methods_and_pickles(ext):
    assert ext.Gain(3.0).apply(labelled()).identical(labelled(IMAGE * 3))
    assert pickle.loads(pickle.dumps(ext.scaled))(labelled()).identical(labelled(IMAGE * 2))


def test_a_result_without_arrays_is_left_as_it_is(ext):
    assert ext.total(labelled(IMAGE.astype("float32"))) == 66.0
    assert ext.mean(framed()) == 5.5


def test_a_class_that_is_registered_later_counts_from_then_on(ext):
    class Late:
        def __init__(self, pixels):
            self.pixels = pixels

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.pixels, dtype)

    late = Late(IMAGE)
    assert type(ext.scaled(late)) is np.ndarray
    ab.register_wrapper(Late, lambda late: late.pixels, lambda late, array: Late(array))
    assert np.array_equal(ext.scaled(late).pixels, IMAGE * 2)
