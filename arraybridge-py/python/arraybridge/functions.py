"""Call functions of other systems with a framework's arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._core import Tensor, convert, detect_memory_type
from .exceptions import UnsupportedArrayError
from .types import MemoryType

__all__ = ["as_function"]


def as_function(function: Callable[..., Any], framework: str) -> Callable[..., Any]:
    """Turn a function of DLPack tensors into a function of the arrays of ``framework``.

    ``function`` takes and returns objects with ``__dlpack__``. It can be a compiled function of
    another system. Each array argument, of any framework, is passed as a ``Tensor`` that shares the
    caller's memory, so the caller sees what the function writes to it. Tensors and DLPack capsules
    that the function returns, alone or in a tuple or list, become arrays of ``framework``, without
    a copy if the memory allows it.

    Raises ``ValueError`` if the framework is unknown.

    >>> import numpy, arraybridge
    >>> def double(tensor):
    ...     array = numpy.from_dlpack(tensor)
    ...     return arraybridge.Tensor(array + array)
    >>> arraybridge.as_function(double, "numpy")(numpy.arange(3.0))
    array([0., 2., 4.])
    """
    target = MemoryType(framework)

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
