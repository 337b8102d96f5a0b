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
