"""Convert arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX and pyclesperanto.

One call converts an array, without copying if the target can use its memory:

>>> import numpy, arraybridge
>>> image = numpy.arange(6, dtype="uint16").reshape(2, 3)
>>> arraybridge.convert(image, "numpy") is image
True

``explain`` says in advance what a conversion would do, and why it would copy. Importing this
package imports no framework except NumPy.
"""

from . import decorators
from ._core import (
    Declared,
    Record,
    Tensor,
    __version__,
    cleanup_all_gpu_frameworks,
    convert,
    convert_memory,
    detect_memory_type,
    dtype_policy,
    explain,
    finish_dtype,
    frameworks,
    memory_types,
    no_copy,
    process_slices,
    registered_pairs,
    stack_slices,
    trace,
    unstack_slices,
)
from .dtype_scaling import SCALING_FUNCTIONS, DtypeConversion
from .exceptions import (
    AliasedArgumentError,
    ClippedValuesWarning,
    CopyRequiredError,
    DeviceMemoryError,
    DeviceUnavailableError,
    FrameworkNotInstalledError,
    GradientDetachedWarning,
    MemoryConversionError,
    OomFallbackWarning,
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
    "SCALING_FUNCTIONS",
    "SUPPORTED_MEMORY_TYPES",
    "ClippedValuesWarning",
    "Converter",
    "CopyRequiredError",
    "Declared",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "DtypeConversion",
    "FrameworkNotInstalledError",
    "GradientDetachedWarning",
    "MemoryConversionError",
    "MemoryType",
    "OomFallbackWarning",
    "Record",
    "SharedImmutableMemoryWarning",
    "Tensor",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
    "__version__",
    "as_function",
    "cleanup_all_gpu_frameworks",
    "convert",
    "convert_memory",
    "registered_pairs",
    "detect_memory_type",
    "dtype_policy",
    "explain",
    "finish_dtype",
    "frameworks",
    "memory_types",
    "no_copy",
    "process_slices",
    "stack_slices",
    "trace",
    "unstack_slices",
    *decorators._OF_THE_TABLES,
]

# One decorator for each table: `torch`, `jax`, ... They are attributes of this package, so they do
# not shadow the modules of the same names.
globals().update(decorators._OF_THE_TABLES)
