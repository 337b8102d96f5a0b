"""Dtype conversions by name, and the stretch of floats to integers for each framework."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import numpy

from ._core import frameworks, stretch

__all__ = ["SCALING_FUNCTIONS", "DtypeConversion"]


class DtypeConversion(Enum):
    """The dtype that a declared function gives back.

    ``PRESERVE_INPUT``, the default, is that of its first array; ``NATIVE_OUTPUT`` is the one that
    the function returned; the others are dtypes. Any other dtype can be given by its name.

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
        """NumPy's type of the dtype; None where the conversion names none.

        >>> from arraybridge import DtypeConversion
        >>> DtypeConversion.UINT16.numpy_dtype
        <class 'numpy.uint16'>
        """
        return getattr(numpy, self.value, None)


SCALING_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    framework["name"]: partial(stretch, memory_type=framework["name"]) for framework in frameworks()
}
"""Functions of an array and a dtype, one for each framework, that stretch floats to integers."""
