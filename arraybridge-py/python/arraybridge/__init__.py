"""Convert arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX and pyclesperanto.

One call brings an array to a framework, without a copy where the memory allows it:

>>> import numpy, arraybridge
>>> image = numpy.arange(6, dtype="uint16").reshape(2, 3)
>>> arraybridge.convert(image, "numpy") is image
True

``explain`` says beforehand what a conversion would do, and why it would copy. Importing this
package imports no framework but NumPy.
"""

from ._core import (
    Record,
    Tensor,
    __version__,
    convert,
    convert_memory,
    converters,
    detect_memory_type,
    explain,
    frameworks,
    no_copy,
    trace,
)
from .exceptions import (
    AliasedArgumentError,
    CopyRequiredError,
    DeviceUnavailableError,
    FrameworkNotInstalledError,
    MemoryConversionError,
    SharedImmutableMemoryWarning,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)
from .functions import as_function
from .types import (
    CPU_MEMORY_TYPES,
    GPU_MEMORY_TYPES,
    SUPPORTED_MEMORY_TYPES,
    Converter,
    MemoryType,
)

__all__ = [
    "AliasedArgumentError",
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SUPPORTED_MEMORY_TYPES",
    "Converter",
    "CopyRequiredError",
    "DeviceUnavailableError",
    "FrameworkNotInstalledError",
    "MemoryConversionError",
    "MemoryType",
    "Record",
    "SharedImmutableMemoryWarning",
    "Tensor",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
    "__version__",
    "as_function",
    "convert",
    "convert_memory",
    "converters",
    "detect_memory_type",
    "explain",
    "frameworks",
    "no_copy",
    "trace",
]
