from collections.abc import Callable
from typing import Any

from .decorators import _FrameworkName

__all__ = ["as_function"]

def as_function(function: Callable[..., Any], framework: _FrameworkName) -> Callable[..., Any]:
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
