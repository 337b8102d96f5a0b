from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import numpy

__all__ = ["SCALING_FUNCTIONS", "DtypeConversion"]

class DtypeConversion(Enum):
    PRESERVE_INPUT = "preserve"
    NATIVE_OUTPUT = "native"
    UINT8 = "uint8"
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    @property
    def numpy_dtype(self) -> type[numpy.generic] | None: ...

SCALING_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]]
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
