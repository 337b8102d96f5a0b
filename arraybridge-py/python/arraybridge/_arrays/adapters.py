"""The objects of other libraries that have an array inside. Their users import the libraries."""

from __future__ import annotations

import itertools
from typing import Any

from .._graphs.described import numpy_dtype
from ..exceptions import MemoryConversionError
from ..wrappers import WrappedCall, register_wrapper

__all__: list[str] = []


def _expect_class(holder: Any, inside: Any, array: Any) -> None:
    """Refuse an object that made another array of the one that it was given."""
    if type(inside) is not type(array):
        cls, kind = type(holder).__name__, type(array)
        name = f"{kind.__module__.split('.')[0]}.{kind.__qualname__}"
        raise TypeError(f"a {cls} cannot hold a {name}")


def _expect_numpy(array: Any, what: str, shape: tuple[int, ...] | None = None) -> None:
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"a {what} holds NumPy arrays, and no {type(array).__name__}")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"its shape is {array.shape}, and that of the {what} {tuple(shape)}")


# xarray -------------------------------------------------------------------------------------------


def _axes(old: tuple[int, ...], new: tuple[int, ...]) -> list[int | None]:
    """The old axis that each new axis is, or None for one that is new.

    It raises ValueError if the lengths do not tell.
    """
    unclear = ValueError(f"the axes of shape {old} cannot be found in the shape {new}")
    if len(old) == len(new):
        for axis, length in enumerate(new):
            # It may be another axis, as after a transposition.
            if length != old[axis] and length in old:
                raise unclear
        return list(range(len(old)))
    short, long = sorted((old, new), key=len)
    places = [
        axes
        for axes in itertools.combinations(range(len(long)), len(short))
        if [long[axis] for axis in axes] == list(short)
    ]
    if len(places) != 1:
        raise unclear
    if len(new) < len(old):
        return list(places[0])
    return [places[0].index(axis) if axis in places[0] else None for axis in range(len(new))]


def _dims(old: Any, array: Any) -> tuple[list[Any], list[Any]]:
    """The names of the axes of an array, and those of the old axes that are gone or changed."""
    axes = _axes(tuple(old.shape), tuple(array.shape))
    dims: list[Any] = []
    for n, axis in enumerate(axes):
        # The default names of xarray may be taken.
        free = (f"dim_{k}" for k in itertools.count(n) if f"dim_{k}" not in {*old.dims, *dims})
        dims.append(next(free) if axis is None else old.dims[axis])
    kept = {d for d, length in zip(dims, array.shape, strict=True) if old.sizes.get(d) == length}
    return dims, [dim for dim in old.dims if dim not in kept]


def _data_array(old: Any, array: Any) -> Any:
    import xarray

    if tuple(array.shape) == old.shape:
        new = old.copy(deep=False, data=array)
    else:
        dims, lost = _dims(old, array)
        # Also those of several axes, such as a latitude: it is that of no pixel now.
        coords = old.coords.to_dataset().drop_dims(lost, errors="ignore")
        new = xarray.DataArray(
            array, coords=coords.coords, dims=dims, name=old.name, attrs=old.attrs
        )
    _expect_class(old, new.data, array)
    return new


def _variable(old: Any, array: Any) -> Any:
    import xarray

    new = xarray.Variable(_dims(old, array)[0], array, old.attrs, old.encoding)
    _expect_class(old, new.data, array)
    return new


def _data_set(old: Any, call: WrappedCall) -> Any:
    """Call a function for each variable."""
    import xarray

    new = {name: _of_variable(name, variable, call) for name, variable in old.data_vars.items()}
    bare = [name for name, variable in new.items() if not isinstance(variable, xarray.DataArray)]
    if bare:
        return call.dropped(old, f"the variables {bare} are not labelled", new)
    made = xarray.Dataset(new, attrs=old.attrs)
    sizes = {**old.sizes, **made.sizes}
    missing = {
        name: coord
        for name, coord in old.coords.items()
        if name not in made.coords and all(sizes[d] == old.sizes[d] for d in coord.dims)
    }
    return made.assign_coords(missing)


def _of_variable(name: Any, variable: Any, call: WrappedCall) -> Any:
    try:
        return call(variable)
    except Exception as error:
        if isinstance(error, MemoryConversionError):
            error.place = f"{error.place or call.name + '()'}: variable {name!r}"
            error.args = (*error.args[:4], error.place)
        else:
            error.add_note(f"arraybridge: {call.name}(): in the variable {name!r}")
        raise


register_wrapper("xarray.Dataset", None, lambda old, array: array, apply=_data_set)
register_wrapper("xarray.Variable", lambda variable: variable.data, _variable)
register_wrapper("xarray.DataArray", lambda array: array.data, _data_array)

# Tables -------------------------------------------------------------------------------------------


def _pandas(old: Any, array: Any) -> Any:
    import pandas  # type: ignore[import-untyped]

    is_table = old.ndim == 2
    kind = "DataFrame" if is_table else "Series"
    labels = {"columns": old.columns} if is_table else {"name": old.name}
    _expect_numpy(array, kind, old.shape)
    new = getattr(pandas, kind)(array, index=old.index, copy=False, **labels)
    new.attrs = old.attrs
    return new


def _polars_series(old: Any, array: Any) -> Any:
    import polars

    _expect_numpy(array, "Series")
    if array.ndim != 1:
        raise ValueError(f"a Series has one axis, and the array {array.ndim}")
    new = polars.Series(old.name, array)
    if old.null_count() and len(new) == len(old) and new.dtype.is_float():
        # NumPy has NaN for what is missing. What the function has filled in stays.
        return new.set(old.is_null() & new.is_nan(), None)
    return new


def _polars_frame(old: Any, array: Any) -> Any:
    import polars

    _expect_numpy(array, "DataFrame", old.shape)
    columns = zip(old.get_columns(), array.T, strict=True)
    return polars.DataFrame([_polars_series(column, new) for column, new in columns])


register_wrapper("pandas.Series", None, _pandas)
register_wrapper("pandas.DataFrame", None, _pandas)
register_wrapper("polars.Series", None, _polars_series)
register_wrapper("polars.DataFrame", None, _polars_frame)

# Units --------------------------------------------------------------------------------------------


def _quantity(old: Any, array: Any) -> Any:
    _expect_numpy(array, "Quantity")
    # Without a dtype, integers would become floats.
    return type(old)(array, old.unit, copy=False, dtype=array.dtype)


def _unyt_array(old: Any, array: Any) -> Any:
    import unyt  # type: ignore[import-untyped]

    _expect_numpy(array, "unyt_array")
    return unyt.unyt_array(array, old.units, name=old.name)


register_wrapper("astropy.units.Quantity", lambda quantity: quantity.value, _quantity)
register_wrapper("unyt.unyt_array", lambda array: array.ndview, _unyt_array)

# Medical images -----------------------------------------------------------------------------------


class _Viewed:
    """The memory of an image. The views of both libraries do not keep it alive by themselves."""

    def __init__(self, view: Any, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = view.__array_interface__


def _view(view: Any, owner: Any) -> Any:
    import numpy

    return numpy.asarray(_Viewed(view, owner))


def _has_channels(array: Any, what: str, size: tuple[int, ...]) -> bool:
    """Return whether an array for an image of this size has an axis more, for channels."""
    _expect_numpy(array, what)
    # Axes and channels are the other way round.
    space = size[::-1]
    channels = array.shape[len(space) :]
    if array.shape[: len(space)] != space or len(channels) > 1:
        raise ValueError(f"its shape is {array.shape}, and that of the image {space}")
    return bool(channels)


def _sitk_array(image: Any) -> Any:
    import SimpleITK

    # An image that is changed leaves its memory to its copies, if it has any.
    copy = SimpleITK.Image(image)
    return _view(SimpleITK.GetArrayViewFromImage(copy), copy)


def _sitk_image(old: Any, array: Any) -> Any:
    import SimpleITK

    is_vector = _has_channels(array, "SimpleITK.Image", old.GetSize())
    new = SimpleITK.GetImageFromArray(array, isVector=is_vector)
    new.CopyInformation(old)
    for key in old.GetMetaDataKeys():
        new.SetMetaData(key, old.GetMetaData(key))
    return new


def _itk_array(image: Any) -> Any:
    import itk  # type: ignore[import-not-found]

    return _view(itk.array_view_from_image(image), (image, image.GetPixelContainer()))


def _itk_image(old: Any, array: Any) -> Any:
    import itk  # type: ignore[import-not-found]

    is_vector = _has_channels(array, "itk.Image", tuple(itk.size(old)))
    try:
        new = itk.image_from_array(array, is_vector=is_vector)
    except KeyError as error:
        raise TypeError(f"ITK is built without images of {array.dtype}") from error
    new.CopyInformation(old)
    new.SetMetaDataDictionary(old.GetMetaDataDictionary())
    return new


register_wrapper("SimpleITK.Image", _sitk_array, _sitk_image)
for _axis_count in range(1, 5):
    register_wrapper(f"itk.itkImagePython.itkImageBase{_axis_count}", _itk_array, _itk_image)

# Arrays that are computed later -------------------------------------------------------------------


def _blockwise(array: Any, call: WrappedCall) -> Any:
    """Call a function for each block of a dask array when that is computed."""
    import dask.array

    call, others = call.without(dask.array.Array)
    for other in others:
        if other.shape != array.shape:
            what = "an array that is computed later has the shape of the first one, or is computed"
            raise call.error(array, f"{what} before: {other.shape} is not {array.shape}")
    options, tiles = call.options, call.options.get("tiles")
    by_slice = call.kwargs.get("slice_by_slice")
    if by_slice is None:
        by_slice = options.get("slice_by_slice") or options.get("slice_by_slice_default")
    if isinstance(tiles, str):
        raise call.error(array, 'tiles="chunks" is for files; give lengths, such as (512, 512)')
    # The axes of what the function is called with: a slice, or all of them.
    inner = list(range(array.ndim))
    if by_slice:
        named = options.get("slice_axes") or (-2, -1)
        if any(isinstance(axis, str) for axis in named):
            raise call.error(array, "its axes have no names; give slice_axes by index")
        inner = [axis for axis in inner if axis in named or axis - array.ndim in named]
    depth: dict[int, int] = {}
    if tiles is not None:
        halo = options.get("halo") or 0
        halos = halo if isinstance(halo, (tuple, list)) else [halo] * len(tiles)
        if len(tiles) > len(inner):
            why = f"tiles are for the last {len(tiles)} axes, and there are {len(inner)}"
            raise call.error(array, why)
        axes = inner[len(inner) - len(tiles) :]
        depth = {
            axis: min(h, array.shape[axis])
            for axis, t, h in zip(axes, tiles, halos, strict=True)
            if t is not None
        }
    if tiles is not None or by_slice:
        # A block has all of each axis that is not cut into tiles and does not count slices.
        array = array.rechunk({axis: -1 for axis in inner if axis not in depth})
    elif call.keep is None and array.npartitions > 1:
        way = "declare tiles=, or keep=True for a function that may be called for each block"
        why = f"it is a computation that has not run; pass .compute(), or {way}"
        raise call.error(array, why)
    others = [other.rechunk(array.chunks) for other in others]
    block = _Block(call, array, others)
    if any(depth.values()):
        depths: Any = [depth, *[depth] * len(others)] if others else depth
        return dask.array.map_overlap(
            block, array, *others, depth=depths, boundary="none", dtype=block.dtype, meta=block.meta
        )
    return dask.array.map_blocks(block, array, *others, dtype=block.dtype, meta=block.meta)


class _Block:
    """A call for one block, whose result has the dtype and the shape that dask was told."""

    def __init__(self, call: WrappedCall, array: Any, others: list[Any]) -> None:
        import numpy

        self.call = call
        self.dtype, self.meta = array.dtype, array._meta
        if call.dtype not in ("preserve", "default", "native"):
            self.dtype = numpy.dtype(call.dtype)
            self.meta = self.meta.astype(self.dtype)
        elif call.dtype != "preserve":
            shape = tuple(min(16, chunks[0]) for chunks in array.chunks)
            blocks = [numpy.zeros_like(each._meta, shape=shape) for each in (array, *others)]
            try:
                self.meta = call(*blocks)
            except Exception as error:
                error.add_note(f"It was called with zeros of shape {shape} to learn its dtype.")
                raise
            self.dtype = numpy_dtype(self.meta)
        if type(self.meta) is not type(array._meta):
            self._expect_joined(array)

    def _expect_joined(self, array: Any) -> None:
        """Refuse blocks that become NumPy arrays when dask joins them."""
        import numpy
        from dask.array.dispatch import concatenate_lookup

        join = concatenate_lookup.dispatch(type(self.meta))
        if join is numpy.concatenate and not isinstance(self.meta, numpy.ndarray):
            name = type(self.meta).__module__.split(".")[0]
            why = f"dask joins blocks of {name} with NumPy; convert them in a function of blocks"
            raise self.call.error(array, why)

    def __call__(self, block: Any, *others: Any) -> Any:
        result = self.call(block, *others)
        found = tuple(result.shape), numpy_dtype(result)
        if found != (tuple(block.shape), self.dtype):
            raise self.call.error(
                block,
                f"the result of a block has the shape and the dtype {found}, not "
                f"{(tuple(block.shape), self.dtype)}; pass .compute(), or set dtype_conversion=",
            )
        return result


register_wrapper("dask.array.Array", None, lambda old, array: array, apply=_blockwise)
