from collections.abc import Callable
from typing import Any

__all__ = ["as_function"]

def as_function(function: Callable[..., Any], framework: str) -> Callable[..., Any]:
    """Make a function of DLPack tensors a function of the arrays of ``framework``.

    For each array it is given a ``Tensor`` that shares the caller's memory; the tensors and DLPack
    capsules that it gives, alone or in a tuple or a list, become arrays of ``framework``.

    Raises ``ValueError`` for an unknown framework.

    >>> import numpy, arraybridge
    >>> def double(tensor):
    ...     array = numpy.from_dlpack(tensor)
    ...     return arraybridge.Tensor(array + array)
    >>> arraybridge.as_function(double, "numpy")(numpy.arange(3.0))
    array([0., 2., 4.])
    """
