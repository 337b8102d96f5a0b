"""Dtype policies by name, and functions that stretch floats to integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ._core import stretch  # type: ignore[import-not-found]
from ._tables import each

if TYPE_CHECKING:
    import numpy

__all__ = ["SCALING_FUNCTIONS", "DtypeConversion"]


class DtypeConversion(Enum):
    """The dtype of a declared function's result.

    ``PRESERVE_INPUT``, the default, stands for the dtype of the first array argument.
    ``NATIVE_OUTPUT`` stands for the dtype that the function returns. The other members are dtypes.
    Dtypes without a member can be given by name.

    >>> from arraybridge import DtypeConversion
    >>> DtypeConversion("preserve") is DtypeConversion.PRESERVE_INPUT
    True
    """

    PRESERVE_INPUT = "preserve"
    NATIVE_OUTPUT = "native"
    UINT8 = "uint8"
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def numpy_dtype(self) -> type[numpy.generic] | None:
        """NumPy's type for the dtype; None if the member is not a dtype.

        >>> from arraybridge import DtypeConversion
        >>> DtypeConversion.UINT16.numpy_dtype
        <class 'numpy.uint16'>
        """
        import numpy

        return getattr(numpy, self.value, None)


SCALING_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {}
"""A function for each framework that stretches floats to the range of an integer dtype.

The keys are names of frameworks. A function takes an array and a dtype, and returns an array of
its framework: the finite minimum becomes the smallest integer of the dtype, the finite maximum the
largest. The value of a constant array is rounded and clamped, and NaN becomes 0. An array of
another framework is converted first. If the dtype is not an integer dtype, or the array already has
one, the array is only cast.

>>> import numpy, arraybridge
>>> stretch = arraybridge.SCALING_FUNCTIONS["numpy"]
>>> stretch(numpy.array([0.0, 0.5, 2.0]), "uint8")
array([  0,  64, 255], dtype=uint8)
"""


def _add(framework: Mapping[str, Any]) -> None:
    name = framework["name"]
    SCALING_FUNCTIONS[name] = partial(stretch, memory_type=name)


each(_add)
