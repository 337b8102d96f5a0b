"""The objects of other libraries that have an array inside. Their users import the libraries."""

from __future__ import annotations

import itertools
from typing import Any

from .._blocks import dtype_policy
from .._core import _new_axes_before, _policy  # type: ignore[import-not-found]
from .._graphs.described import numpy_dtype
from ..exceptions import MemoryConversionError
from ..wrappers import WrappedCall, _rewrapped, register_wrapper

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


def _dims(old: Any, array: Any) -> list[Any]:
    """The names of the axes of an array that has those of `old`, and further ones, or no axes."""
    shape, new = tuple(old.shape), tuple(array.shape)
    if not new:
        return []
    before = _new_axes_before(shape, new) if shape else 0
    if before is None:
        way = "same lengths are no evidence; return a DataArray, or use xarray.apply_ufunc"
        raise ValueError(f"the axes of shape {shape} cannot be found in the shape {new}: {way}")
    dims = dict(enumerate(old.dims, before))
    for axis in range(len(new)):
        # The default names of xarray may be taken.
        free = (f"dim_{k}" for k in itertools.count(axis))
        dims.setdefault(axis, next(dim for dim in free if dim not in dims.values()))
    return [dims[axis] for axis in range(len(new))]


def _data_array(old: Any, array: Any) -> Any:
    import xarray

    if tuple(array.shape) == old.shape:
        new = old.copy(deep=False, data=array)
    else:
        dims = _dims(old, array)
        coords = old.coords if dims else old.coords.to_dataset().drop_dims(old.dims).coords
        new = xarray.DataArray(array, coords=coords, dims=dims, name=old.name, attrs=old.attrs)
    _expect_class(old, new.data, array)
    return new


def _variable(old: Any, array: Any) -> Any:
    import xarray

    new = xarray.Variable(_dims(old, array), array, old.attrs, old.encoding)
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


def _quantity_array(quantity: Any) -> Any:
    import numpy

    return quantity.view(numpy.ndarray)


def _quantity(old: Any, array: Any) -> Any:
    _expect_numpy(array, "Quantity")
    # Without a dtype, integers would become floats.
    return type(old)(array, old.unit, copy=False, dtype=array.dtype)


def _unyt_array(old: Any, array: Any) -> Any:
    import unyt  # type: ignore[import-untyped]

    _expect_numpy(array, "unyt_array")
    return unyt.unyt_array(array, old.units, name=old.name)


def _pint_quantity(old: Any, array: Any) -> Any:
    new = old._REGISTRY.Quantity(array, old.units)
    _expect_class(old, new.magnitude, array)
    return new


def _of_pint(old: Any, call: WrappedCall) -> Any:
    """Call a function for the numbers, if it may keep the unit."""
    if call.keep is None and not old.unitless:
        way = "pass its magnitude, or declare the function with keep=True if it keeps the unit"
        raise call.error(old, f"it is in the unit {old.units}; {way}")
    return _rewrapped(old, call(old.magnitude), call.name, call.keep)


register_wrapper(
    "pint.Quantity", lambda quantity: quantity.magnitude, _pint_quantity, apply=_of_pint
)
# The value of a scalar is a number, and the lead is an array.
register_wrapper("astropy.units.Quantity", _quantity_array, _quantity)
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

    options, tiles = call.options, call.options.get("tiles")
    by_slice = call.kwargs.get("slice_by_slice")
    if by_slice is None:
        by_slice = options.get("slice_by_slice") or options.get("slice_by_slice_default")
    if isinstance(tiles, str):
        raise call.error(array, 'tiles="chunks" is for files; give lengths, such as (512, 512)')
    # The axes of what the function is called with: a slice, or all of them.
    inner, named = list(range(array.ndim)), options.get("slice_axes") or (-2, -1)
    if by_slice:
        try:
            axes = [call.dims.index(axis) if isinstance(axis, str) else axis for axis in named]
        except ValueError:
            axes = [dim or "none" for dim in call.dims]
            why = f"slice_axes is {named}, and the axes have the names {axes}; give them by index"
            raise call.error(array, why) from None
        inner = [axis for axis in inner if axis in axes or axis - array.ndim in axes]
    sliced, is_whole = options.get("sliced") or (), tiles is None and not by_slice
    sliced = (sliced,) if isinstance(sliced, str) else sliced

    def is_cut(name: str | None, arg: Any) -> bool:
        return name in sliced or (is_whole and getattr(arg, "shape", None) == array.shape)

    call, others = call.without(dask.array.Array, is_cut)
    leading = [axis for axis in range(array.ndim) if axis not in inner]
    others = [_companion(other, array, leading, call) for other in others]
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
    chunks = [
        tuple((1,) if n == 1 else own for n, own in zip(other.shape, array.chunks, strict=True))
        for other in others
    ]
    others = [other.rechunk(own) for other, own in zip(others, chunks, strict=True)]
    dims = call.dims if any(isinstance(axis, str) for axis in named) else ()
    block = _Block(call, array, others, dims)
    options = {"dtype": block.dtype, "meta": block.meta}
    if any(depth.values()):
        depths: Any = [depth, *[depth] * len(others)] if others else depth
        options |= {"depth": depths, "boundary": "none"}
        return dask.array.map_overlap(block, array, *others, **options)
    return dask.array.map_blocks(block, array, *others, **options)


def _companion(other: Any, array: Any, leading: list[int], call: WrappedCall) -> Any:
    """An argument that is cut with a dask array: of its shape, or a value for each slice."""
    import dask.array

    other = dask.array.asarray(other)
    lengths = tuple(array.shape[axis] for axis in leading)
    if leading and other.shape == lengths:
        return other.reshape([n if k in leading else 1 for k, n in enumerate(array.shape)])
    if other.shape != array.shape:
        what = "what is cut with an array that is computed later has the shape of it"
        slices = f", or {lengths} for its slices" if leading else ""
        why = f"{what}{slices}, or is computed before: {other.shape} is not {array.shape}"
        raise call.error(array, why)
    return other


class _Block:
    """A call for one block, whose result has the dtype and the shape that dask was told."""

    def __init__(self, call: WrappedCall, array: Any, others: list[Any], dims: Any) -> None:
        import numpy

        self.call, self.dims = call, dims
        # The axes of a value for each slice, which the others have beside them.
        self.axes = [
            tuple(k for k, n in enumerate(each.shape) if n != array.shape[k]) for each in others
        ]
        # What is computed later is computed by the policy of now.
        self.policy = _policy(None, None, None, None, True)
        if call.dtype not in ("preserve", "default", "native"):
            self.dtype = numpy.dtype(call.dtype)
            self.meta = array._meta.astype(self.dtype)
        elif call.dtype == "preserve" and array.dtype != bool:
            self.dtype, self.meta = array.dtype, array._meta
        else:
            shape = tuple(min(16, chunks[0]) for chunks in array.chunks)
            blocks = [
                numpy.zeros_like(
                    each._meta, shape=[min(m, n) for m, n in zip(shape, each.shape, strict=True)]
                )
                for each in (array, *others)
            ]
            try:
                self.meta = self._called(*blocks)
            except Exception as error:
                error.add_note(f"It was called with zeros of shape {shape} to learn its dtype.")
                raise
            self._expect_array(array, self.meta, shape)
            self.dtype = numpy_dtype(self.meta)
        is_stretched = call.scaling == "stretch" and call.dtype != "native"
        if is_stretched and self.dtype.kind in "iu" and array.npartitions > 1:
            why = 'scaling="stretch" needs the smallest and the largest value of all blocks'
            raise call.error(array, f'{why}; use scaling="unit", or pass .compute()')
        if type(self.meta) is not type(array._meta):
            self._expect_joined(array)

    def _expect_array(self, block: Any, result: Any, shape: tuple[int, ...]) -> None:
        """Refuse a result that is no array with the shape of its block."""
        found = getattr(result, "shape", None)
        if found is None or isinstance(result, (tuple, list)) or tuple(found) != shape:
            kind = type(result).__name__ if found is None else f"of the shape {tuple(found)}"
            way = "return one array of its shape, or pass .compute()"
            raise self.call.error(block, f"the result of a block of shape {shape} is {kind}; {way}")

    def _expect_joined(self, array: Any) -> None:
        """Refuse blocks that become NumPy arrays when dask joins them."""
        import numpy
        from dask.array.dispatch import concatenate_lookup

        join = concatenate_lookup.dispatch(type(self.meta))
        if join is numpy.concatenate and not isinstance(self.meta, numpy.ndarray):
            name = type(self.meta).__module__.split(".")[0]
            why = f"dask joins blocks of {name} with NumPy; convert them in a function of blocks"
            raise self.call.error(array, why)

    def _called(self, block: Any, *others: Any) -> Any:
        """The result for a block. Where the declaration names axes, the block has their names."""
        parts = [other.squeeze(axes) for other, axes in zip(others, self.axes, strict=True)]
        with dtype_policy(*self.policy[:3], range=self.policy[3]):
            if not self.dims:
                return self.call(block, *parts)
            import xarray

            result = self.call(xarray.Variable(self.dims, block), *parts)
            return result.data if isinstance(result, xarray.Variable) else result

    def __call__(self, block: Any, *others: Any) -> Any:
        result = self._called(block, *others)
        self._expect_array(block, result, tuple(block.shape))
        if (found := numpy_dtype(result)) != self.dtype:
            way = "pass .compute(), or set dtype_conversion="
            raise self.call.error(
                block, f"the dtype of a block's result is {found}, not {self.dtype}; {way}"
            )
        return result


register_wrapper("dask.array.Array", None, lambda old, array: array, apply=_blockwise)
