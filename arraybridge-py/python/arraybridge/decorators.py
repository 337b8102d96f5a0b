"""The decorators: one for each framework of the table, and ``memory_types``.

>>> import numpy
>>> from arraybridge.decorators import numpy as on_numpy
>>> @on_numpy
... def brighter(image, by=1):
...     return image + by
>>> brighter(numpy.zeros(2, dtype="uint8"))
array([1, 1], dtype=uint8)

Transformations of a function's own framework, such as ``jax.jit``, ``jax.grad``, ``tf.function``,
``torch.func.grad`` and ``torch.compile``, work on a declared function. To call functions of other
frameworks inside compiled programs, use ``arraybridge.jax_callback`` and ``arraybridge.torch_op``.
With ``differentiable=True``, the gradients of one framework flow through a function of another.

If the framework runs out of memory, the call is retried: with all caches cleared, then in parts if
``split_axis`` is set, then on the host. If a function writes to its arguments before it fails, it
may therefore write twice. torch arguments are safe, because torch counts writes. For other
frameworks, disable retries with ``oom_recovery=False``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from . import _core, compat
from ._core import Declared

# The part of a docstring that is the same for every framework.
_OPTIONS = """\
Parameters
----------
function : callable, optional
    A function, coroutine function, generator function, method or other callable. If it is left out,
    a decorator with the options is returned.
input_type, output_type : str or MemoryType, optional
    The framework that callers usually bring, which `input_memory_type` reports, and the framework
    of the results. The function always receives arrays of the decorator's framework. The output
    type "input" stands for the framework of the first array argument.
input_dtype : str or dtype, optional
    The dtype that arguments are cast to. What does not fit is clamped, and on the host a
    ClippedValuesWarning counts it.
arrays : str or sequence of str, optional
    The parameters whose arrays are converted. By default, all of them.
sliced : str or sequence of str, optional
    The parameters that are sliced and split together with the first array. One with a value for
    each slice, also a list of numbers, reaches the function as an array without axes.
device : str or int, optional
    As in `convert`. By default, the device of the first array that belongs to the framework, else
    the framework's current accelerator, else the host.
gpu_id : int, optional
    The index of the accelerator to prefer. If the framework finds no accelerator on this machine,
    its arrays stay on the host, with a NoAcceleratorWarning.
copy : bool, optional
    True gives the function memory of its own. False shares memory or raises CopyRequiredError.
dtype_conversion, scaling, range : optional
    The dtype of results, how floats become integers, and which integers, as in `dtype_policy`.
narrow : str, optional
    What becomes of an array whose dtype the framework lacks: "warn" converts it to the nearest
    dtype, with a NarrowedDtypeWarning; "error" raises UnsupportedDtypeError.
oom_recovery : bool, optional
    False disables retries when memory runs out.
on_oom : str or sequence of str, optional
    How to retry when memory runs out, in order: "clear", "split", "host". "clear" is tried a second
    time after a short wait; functions declared for NumPy are split before that.
clear_cuda_cache : bool, optional
    True retries with all caches cleared, whatever the two options above say.
split_axis : int, optional
    The axis along which the first array may be split; a negative one counts from the last. Its
    parts are halved until they fit. Those of a large array are a 16th of it at first, but not of
    fewer than 8 Mi elements. The next calls like this one with an array that is at least as long
    begin with parts of the length that fitted. Every 32nd of them tries the whole first.
join : str, callable or tuple, optional
    How the results of the parts become one: "concatenate", "sum", "max", "min", or a function of
    the list of results; for a tuple, a tuple of these. By default, only arrays that are as long as
    their part are joined: they are concatenated.
host : callable, optional
    The function to call instead on the host.
contract : callable, optional
    A test of the result. If it returns False, the call raises ValueError.
differentiable : bool, optional
    True lets gradients of PyTorch, JAX and TensorFlow flow through a function of another one of
    them. Results are then those of the caller's framework, with the dtype that the function gives
    them.
slice_by_slice : bool, optional
    True calls the function for each 2-D slice of the first array, along all axes before the last
    two, unless a call says otherwise.
slice_by_slice_default, dtype_config_default : bool and object, optional
    The original package's names of slice_by_slice and, for an object with the attribute
    default_dtype_conversion, of dtype_conversion.
slice_axes : tuple of int or str, optional
    The axes of a slice, by index or by the name that the array has for them: (0, 1) for images with
    their channels last, ("y", "x") for an `xarray.DataArray`. A slice has them in the order of the
    array. Results with as many axes are stacked along the axes of the array, others along first
    axes.
tiles : tuple of int or None, or "chunks", optional
    The lengths of a tile along the last axes of the first array, as (512, 512); None leaves an axis
    whole. "chunks" takes the lengths of the chunks, or shards, of `out`, or of the first array. The
    function is called for each tile, and the results are put together: arrays that are as long as
    their tile along these axes by their places, anything else as `join` says.
halo : int or tuple of int, optional
    How many more elements a tile has on each side, where the array has them. They are cut off the
    result. With tiles="chunks", a tuple is for the last axes. A tile with a halo is a copy, so
    `writes` for an array that is cut is an error.
pad : {"reflect", "edge", "constant"}, optional
    How tiles are padded beyond the ends of the array, so that all have one shape, and a function
    that is compiled for a shape is compiled once. "constant" pads with zeros.
workers : int, optional
    The number of threads that work on tiles. It helps where the function releases the GIL, as most
    of NumPy and torch does. Settings of a thread, such as `torch.no_grad()` or `jax.enable_x64()`,
    do not hold in workers. Arrays on an accelerator, traced arrays, and those of TensorFlow while a
    gradient tape watches the caller's thread, are worked on by that thread alone.
writable : bool, optional
    True copies results that come from immutable arrays, such as those of JAX and TensorFlow, so
    that they can be written to. By default NumPy shares their memory and gets a read-only array.
keep : bool or "strict", optional
    What becomes of the object that the lead is in, such as an `xarray.DataArray`, where the output
    type is "input" (see `register_wrapper`). By default the result is in an object like it, unless
    the function would have to keep a unit, or be called for each block of a dask array. True says
    that it keeps the unit and may be called for each block. "strict" says so too, and makes what
    cannot be kept an error instead of a MetadataDroppedWarning. False returns the array.

Returns
-------
function or Declared
    A Python function for a Python function, a Declared for any other callable. It is called like
    the function, and has the additional keywords `dtype_conversion` and `slice_by_slice`. With
    `tiles`, or slice by slice, it also has `out`: an array, also one of zarr or h5py, that the
    first array of the result is written to part by part, in its dtype. It is returned in the place
    of that array.

Raises
------
TypeError
    For an unknown option, a value of a wrong type, and an object that cannot be called.
ValueError
    For an unknown framework, dtype, device, way to retry or name of a parameter.
"""


@final
class Decorator:
    """A decorator for functions that work on the arrays of one framework."""

    def __init__(self, framework: Any, options: Mapping[str, Any] | None = None) -> None:
        # A mistake in the options is an error where they are written.
        self._options = dict(options or {})
        self._framework, title = _core._check_options(framework, self._options)
        self.__name__ = self.__qualname__ = self._framework
        self.__doc__ = f"""\
Declare that a function works on {title} arrays, whatever arrays it is called with.

Its array arguments, by position, by name and in lists, tuples, dicts and dataclasses, are
converted to {title} arrays on one device. By default, floats that it returns for an image get the
dtype of the image. When memory runs out, the call is retried: after the caches were cleared, then
part by part if `split_axis` is set, then on the host.

{_OPTIONS}
Examples
--------
>>> import numpy, arraybridge
>>> @arraybridge.{self._framework}(output_type="numpy")
... def brighter(image, by=2):
...     return image * by
>>> brighter(numpy.array([1, 2], dtype="float32"))
array([2., 4.], dtype=float32)
"""

    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        """Declare ``function``. Without one, return a decorator with these options."""
        options = {**self._options, **options}
        if function is None:
            return Decorator(self._framework, options)
        return _core._declare(function, self._framework, options, is_public=True)

    def __repr__(self) -> str:
        return f"<decorator arraybridge.{self._framework}>"

    def __reduce__(self) -> Any:
        return Decorator, (self._framework, self._options)


def memory_types(
    input_type: Any, output_type: Any, contract: Any = None, **options: Any
) -> Decorator:
    """Declare which frameworks a function takes and returns.

    Parameters
    ----------
    input_type, output_type : str or MemoryType
        The framework that array arguments are converted to, and the framework of the results. The
        output type "input" stands for the framework of the first array argument.
    contract : callable, optional
        A check that is called with the result. If it returns False, a ValueError is raised.
    **options
        Options of the decorators, such as `arraybridge.torch`.

    Returns
    -------
    Decorator
        A decorator for the function.

    Raises
    ------
    TypeError, ValueError
        If a framework or an option is unknown.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> @arraybridge.memory_types("numpy", "input")
    ... def doubled(image):
    ...     return image * 2
    >>> doubled(numpy.ones(2))
    array([2., 2.])
    """
    given = {"input_type": input_type, "output_type": output_type}
    if contract is not None:
        given["contract"] = contract
    return Decorator(input_type, {**given, **options})


_OF_THE_TABLES = {each["name"]: Decorator(each["name"]) for each in _core.frameworks()}

__all__ = ["Declared", "Decorator", "memory_types", *_OF_THE_TABLES]

globals().update(_OF_THE_TABLES)


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
