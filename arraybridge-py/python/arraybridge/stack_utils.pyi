from collections.abc import Sequence
from typing import Any

from . import stack_slices as stack_slices
from . import unstack_slices as unstack_slices

__all__ = ["concatenate", "part", "stack_slices", "unstack_slices"]

def concatenate(parts: Sequence[Any], axis: int) -> Any:
    """Put arrays together along an axis that they have, in the framework of the first of them.

    Their other axes are equal. Raises `ValueError` when there are none, when they lack the axis and
    when their shapes do not fit; otherwise what `convert` raises.

    >>> import numpy
    >>> from arraybridge.stack_utils import concatenate
    >>> concatenate([numpy.zeros((2, 3)), numpy.ones((2, 1))], 1).shape
    (2, 4)
    """

def part(array: Any, axis: int, start: int, stop: int) -> Any:
    """The elements from `start` to before `stop` along an axis; a view where there are views.

    Raises `ValueError` when the array has no such axis or no such elements.

    >>> import numpy
    >>> from arraybridge.stack_utils import part
    >>> part(numpy.arange(5), 0, 1, 3)
    array([1, 2])
    """
