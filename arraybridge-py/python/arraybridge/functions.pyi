from collections.abc import Callable
from typing import Any

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
