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

from . import _core, _tables, compat
from ._core import Declared
from ._declared import options as _options

# The part of a docstring that is the same for every framework.
_OPTIONS = f"""\
Parameters
----------
function : callable, optional
    A function, coroutine function, generator function, method or other callable. If it is left out,
    a decorator with the options is returned.
{_options.documented()}
Returns
-------
function or Declared
    A Python function for a Python function, a Declared for any other callable. It shows the
    signature of the function. Calls also take the keywords `dtype_conversion` and `slice_by_slice`.
    With `tiles`, or slice by slice, they take `out`: an array, also one of zarr or h5py, that the
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

    def __getattr__(self, name: str) -> Any:
        # The class has another signature.
        if name == "__signature__":
            return _options.signature()
        raise AttributeError(f"'Decorator' object has no attribute {name!r}")

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


__all__ = ["Declared", "Decorator", "memory_types", *_tables.BUILT]


def _add(framework: Mapping[str, Any]) -> None:
    name = framework["name"]
    globals().setdefault(name, Decorator(name))


_tables.each(_add)


def __getattr__(name: str) -> Any:
    # Tables of installed packages are read when they are needed.
    for framework in () if name.startswith("_") else _core.frameworks():
        if framework["name"] == name:
            _add(framework)
            return globals()[name]
    return compat.find(__name__, name)
