from collections.abc import Sequence
from typing import Any

from . import stack_slices as stack_slices
from . import unstack_slices as unstack_slices

__all__ = ["concatenate", "part", "stack_slices", "unstack_slices"]

def concatenate(parts: Sequence[Any], axis: int) -> Any:
    """Concatenate arrays along an existing axis, in the framework of the first one.

    The other axes must have equal lengths. A negative axis counts from the last one. Raises
    `ValueError` if there are no arrays, if they lack the axis, or if their shapes do not fit.
    Otherwise raises what `convert` raises.

    >>> import numpy
    >>> from arraybridge.stack_utils import concatenate
    >>> concatenate([numpy.zeros((2, 3)), numpy.ones((2, 1))], 1).shape
    (2, 4)
    """

def part(array: Any, axis: int, start: int, stop: int) -> Any:
    """Return the elements from `start` up to `stop` along an axis, as a view if the framework has
    views.

    A negative axis counts from the last one. Raises `ValueError` if the array has no such axis or
    no such elements.

    >>> import numpy
    >>> from arraybridge.stack_utils import part
    >>> part(numpy.arange(5), 0, 1, 3)
    array([1, 2])
    """
