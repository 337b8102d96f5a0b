"""Call functions of other systems with a framework's arrays."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ._core import (  # type: ignore[import-not-found]
    Tensor,
    convert,
    detect_memory_type,
    explain,
)
from .compilers import Promise, described  # type: ignore[attr-defined]
from .exceptions import UnsupportedArrayError
from .types import MemoryType

if TYPE_CHECKING:
    from .decorators import _FrameworkName

__all__ = ["as_function"]


def as_function(
    function: Callable[..., Any] | str | object,
    framework: _FrameworkName,
    *,
    result: Callable[..., Any] | tuple[Callable[..., Any], ...] | None = None,
) -> Callable[..., Any]:
    """Turn a function of DLPack tensors into a function of the arrays of ``framework``.

    ``function`` takes and returns objects with ``__dlpack__``. It can be a compiled function of
    another system. Each array argument, of any framework, is passed as a ``Tensor`` that shares the
    caller's memory, so the caller sees the function's writes. Tensors and DLPack capsules in the
    result, alone or in a tuple or list, become arrays of ``framework``, without a copy if the
    memory allows it.

    Raises ``ValueError`` if the framework is unknown.

    ``function`` may also be a handler of XLA's FFI that works on the host: the capsule that
    ``jax.ffi.register_ffi_target`` takes, or the name of a registered one. Arrays of any framework
    are passed by position and attributes by keyword, as to ``jax.ffi.ffi_call``. ``result``
    describes the result: a function, or a tuple with one for each of several results. It is called
    with the arguments, with a ``jax.ShapeDtypeStruct`` in place of each array, and returns an
    object with the shape and the dtype of the result. With "jax" as the framework, the handler can
    be called inside ``jax.jit``.

    >>> import numpy, arraybridge
    >>> def double(tensor):
    ...     array = numpy.from_dlpack(tensor)
    ...     return arraybridge.Tensor(array + array)
    >>> arraybridge.as_function(double, "numpy")(numpy.arange(3.0))
    array([0., 2., 4.])
    """
    try:
        target = MemoryType(framework)  # type: ignore[arg-type]
    except ValueError:
        explain(numpy.zeros(1), framework)  # raises the error that lists the names
        raise
    is_handler = isinstance(function, str) or type(function).__name__ == "PyCapsule"
    if is_handler != (result is not None):
        raise TypeError(
            "result= describes the result of a handler of XLA's FFI; "
            + ("pass it" if is_handler else "leave it out for a function")
        )
    if is_handler:
        return _of_handler(function, target, result)
    if not callable(function):
        raise TypeError(f"as_function() takes a function or a handler, not {function!r}")

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        inputs = [_tensor(value) for value in args]
        named = {name: _tensor(value) for name, value in kwargs.items()}
        return _array(function(*inputs, **named), target)

    return call


def _tensor(value: Any) -> Any:
    try:
        detect_memory_type(value)
    except UnsupportedArrayError:
        return value
    return Tensor(value)


def _array(value: Any, target: MemoryType) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_array(item, target) for item in value)
    if type(value).__name__ == "PyCapsule":
        value = Tensor._adopt(value)
    return convert(value, target) if hasattr(value, "__dlpack__") else value


_handlers = itertools.count()


def _of_handler(handler: Any, target: MemoryType, result: Any) -> Callable[..., Any]:
    """Return a function that calls a handler of XLA's FFI."""
    import jax

    name = handler
    if not isinstance(handler, str):
        name = f"arraybridge.{next(_handlers)}"
        jax.ffi.register_ffi_target(name, handler, platform="cpu")
    promise = Promise(name, result)

    def call(*args: Any, **attributes: Any) -> Any:
        arrays = [convert(value, "jax") for value in args]
        promised = described(promise.of(described(arrays), attributes))
        # A batch is a loop, since the behaviour of the handler for more axes is unknown.
        run = jax.ffi.ffi_call(name, promised, vmap_method="sequential")
        return promise.alone([convert(each, target) for each in run(*arrays, **attributes)])

    return call
