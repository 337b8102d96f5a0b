"""Objects of other libraries that are like arrays, with all that takes arrays."""

import array
import ctypes
import mmap
import multiprocessing

import arraybridge as ab
import bridges
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")

VALUES = np.arange(12, dtype="int32").reshape(3, 4)


class OnTheInstance:
    def __init__(self):
        self.kept = VALUES.copy()
        self.__array_interface__ = self.kept.__array_interface__


class Structure:
    kept = VALUES.copy()

    @property
    def __array_struct__(self):
        return self.kept.__array_struct__


def c_array():
    return ((ctypes.c_int32 * 4) * 3)(*(tuple(row) for row in VALUES.tolist()))


def raw_array():
    shared = multiprocessing.RawArray("i", VALUES.size)
    np.frombuffer(shared, "int32")[:] = VALUES.ravel()
    return shared


def mapped():
    memory = mmap.mmap(-1, VALUES.nbytes)
    memory[:] = VALUES.tobytes()
    return memory


def tvm():
    ffi = pytest.importorskip("tvm_ffi")
    return ffi.from_dlpack(VALUES.copy())


def in_file(tmp):
    file = h5py.File(tmp / "a.h5", "w")
    return file.create_dataset("x", data=VALUES)


LIKES = {
    "pyarrow.Array": (lambda tmp: pa.array(VALUES.ravel()), VALUES.ravel()),
    "pyarrow.Array of bools": (lambda tmp: pa.array([True, False]), np.array([True, False])),
    "pyarrow.ChunkedArray": (lambda tmp: pa.chunked_array([VALUES.ravel()]), VALUES.ravel()),
    "pyarrow.Tensor": (lambda tmp: pa.Tensor.from_numpy(VALUES), VALUES),
    "pyarrow.Buffer": (
        lambda tmp: pa.py_buffer(VALUES.tobytes()),
        np.frombuffer(VALUES.tobytes(), "int8"),
    ),
    "tvm_ffi.Tensor": (lambda tmp: tvm(), VALUES),
    "zarr.Array": (lambda tmp: zarr.array(VALUES), VALUES),
    "h5py.Dataset": (in_file, VALUES),
    "xarray.DataArray": (lambda tmp: xarray.DataArray(VALUES), VALUES),
    "pandas.DataFrame": (lambda tmp: pd.DataFrame(VALUES), VALUES),
    "polars.DataFrame": (lambda tmp: pl.DataFrame(VALUES), VALUES),
    "polars.Series": (lambda tmp: pl.Series(VALUES.ravel()), VALUES.ravel()),
    "interface of the instance": (lambda tmp: OnTheInstance(), VALUES),
    "__array_struct__": (lambda tmp: Structure(), VALUES),
    "ctypes array": (lambda tmp: c_array(), VALUES),
    "RawArray": (lambda tmp: raw_array(), VALUES.ravel()),
    "mmap": (lambda tmp: mapped(), np.frombuffer(VALUES.tobytes(), "uint8")),
    "memoryview": (lambda tmp: memoryview(VALUES), VALUES),
    "array.array": (lambda tmp: array.array("i", VALUES.ravel().tolist()), VALUES.ravel()),
}


@pytest.fixture(params=LIKES)
def like(request, tmp_path):
    make, expected = LIKES[request.param]
    return make(tmp_path), expected


@pytest.mark.parametrize("name", ("numpy", "torch"))
def test_conversions_and_declared_functions_take_it(like, name):
    data, expected = like
    assert bridges.difference(name, ab.convert(data, name), expected) is None
    record = ab.explain(data, name)
    assert (record.shape, record.dtype) == (expected.shape, expected.dtype.name)
    seen = []
    f = getattr(ab, name)(lambda *args, **kwargs: seen.extend([*args, *kwargs.values()]))
    f(data)
    f(x=data)
    f([{"a": data}])
    found = [seen[0], seen[1], seen[2][0]["a"]]
    assert [bridges.difference(name, x, expected) for x in found] == [None] * 3


def test_stacks_parts_and_tensors_take_it(like):
    data, expected = like
    tensor = ab.Tensor(data)
    assert np.array_equal(np.from_dlpack(tensor), expected)
    assert np.array_equal(ab.stack_utils.part(data, 0, 0, 2), expected[:2])
    joined = ab.stack_utils.concatenate([data, expected], 0)
    assert np.array_equal(joined, np.concatenate([expected, expected]))
    if expected.ndim == 2:
        assert np.array_equal(ab.stack_slices([data, expected], "numpy"), [expected] * 2)
        double = ab.numpy(tiles=(2, 2))(lambda x: x * 2)
        assert np.array_equal(double(data), expected * 2)


def test_rust_functions_take_it(like, ext):
    data, expected = like
    with pytest.raises((TypeError, ab.MemoryConversionError), match=r"total\(\) argument 'image'"):
        ext.total(data)  # It takes float32 alone, and says what it was given instead.
    floats = expected.astype("float32").reshape(-1, 2)
    assert ext.total(xarray.DataArray(floats)) == floats.sum()
    assert ext.total(memoryview(floats)) == floats.sum()


PASSED = [b"text", bytearray(b"text"), ctypes.c_int(3), ctypes.c_double(0.5)]


@pytest.mark.parametrize("value", PASSED, ids=repr)
def test_text_and_numbers_of_c_are_no_arrays(value):
    assert ab.numpy(lambda image, value: value)(VALUES, value) is value
    with pytest.raises(ab.UnsupportedArrayError):
        ab.convert(value, "numpy")


def test_a_buffer_of_records_is_passed_as_it_is():
    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]

    points = (Point * 2)()
    assert ab.numpy(lambda image, points: points)(VALUES, points) is points


def test_a_file_is_not_read_to_explain(tmp_path, monkeypatch):
    dataset = in_file(tmp_path)
    for data in (dataset, zarr.array(VALUES)):
        monkeypatch.setattr(
            type(data), "__array__", lambda *_: pytest.fail("was read"), raising=True
        )
        record = ab.explain(data, "torch")
        assert (record.route, record.shape, record.dtype) == ("copy", (3, 4), "int32")
        assert record.why == "the object gives NumPy a copy of its values"
        monkeypatch.undo()


def test_a_dask_array_is_not_computed_to_explain():
    dask_array = pytest.importorskip("dask.array")
    lazy = dask_array.from_array(VALUES).map_blocks(
        lambda block: pytest.fail("was computed"), dtype="int32", meta=VALUES[:0, :0]
    )
    with pytest.raises(ab.UnsupportedArrayError, match=r"has not run; pass \.compute\(\)"):
        ab.explain(lazy, "torch")


def test_to_share_is_said_of_the_callers_memory_only():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    series = pd.Series([1.5, 2.5])
    assert ab.explain(frame, "numpy").route == "copy"
    assert ab.explain(series, "numpy").route == "share"
    assert ab.explain(pl.Series([1.5, 2.5]), "numpy").route == "share"
    # Columns of one dtype may lie side by side by chance.
    assert ab.explain(pl.DataFrame({"a": [1], "b": [0.5]}), "numpy").route == "copy"
    f = ab.numpy(copy=False)(lambda x: x)
    for call in (
        lambda: ab.convert(frame, "numpy", copy=False),
        lambda: f(frame),
        lambda: f([frame]),
    ):
        with pytest.raises(ab.CopyRequiredError, match="gives NumPy a copy"):
            call()
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError, match="gives NumPy a copy"):
        ab.numpy(lambda x: x)(frame)
    shared = ab.convert(series, "numpy", copy=False)
    assert shared.ctypes.data == series.to_numpy().ctypes.data


LARGE = 2**53 + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda n: pa.array([n, None]),
        lambda n: pa.chunked_array([[n, None]]),
        lambda n: pl.Series([n, None]),
        lambda n: pl.DataFrame({"a": [n], "b": [0.5]}),
        lambda n: pd.DataFrame({"a": [n], "b": [0.5]}),
    ],
)
def test_integers_that_a_float_cannot_hold_are_an_error(make):
    with pytest.raises(ab.UnsupportedArrayError, match="cannot hold the integers"):
        ab.convert(make(LARGE), "numpy")
    assert 2.0**53 in ab.convert(make(2**53), "numpy")
