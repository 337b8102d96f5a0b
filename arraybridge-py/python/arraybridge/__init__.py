"""Convert arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX and pyclesperanto.

One call converts an array, without copying if the target can use its memory:

>>> import numpy, arraybridge
>>> image = numpy.arange(6, dtype="uint16").reshape(2, 3)
>>> arraybridge.convert(image, "numpy") is image
True

``explain`` returns the plan of a conversion in advance, with the reason for a copy. The package
imports no framework.
"""

import importlib
from typing import Any

# `_package` comes first: it says why the package cannot work where its files are. `_parts` has what
# Rust code calls in Python.
from . import _package, _parts, _tables, compat, decorators, exceptions, types  # noqa: F401
from ._blocks import dtype_policy, no_copy, progress
from ._core import (
    Declared,
    Record,
    Tensor,
    __version__,
    cleanup_all_gpu_frameworks,
    convert,
    convert_memory,
    detect_memory_type,
    explain,
    finish_dtype,
    frameworks,
    process_slices,
    registered_pairs,
    stack_slices,
    thread_stream,
    unstack_slices,
)
from ._settings import configure
from ._tables import load_table
from .decorators import memory_types
from .dtype_scaling import SCALING_FUNCTIONS, DtypeConversion
from .exceptions import *
from .tracing import observe, trace
from .trees import TreePlan, convert_tree, explain_tree
from .types import (
    CPU_MEMORY_TYPES,
    GPU_MEMORY_TYPES,
    SUPPORTED_MEMORY_TYPES,
    ArrayLike,
    Converter,
    MemoryType,
)
from .wrappers import WrappedCall, register_wrapper

__all__ = [
    *exceptions.__all__,
    *_tables.BUILT,
    "ArrayLike", "CPU_MEMORY_TYPES", "GPU_MEMORY_TYPES", "SCALING_FUNCTIONS",
    "SUPPORTED_MEMORY_TYPES", "Converter", "Declared", "DtypeConversion", "MemoryType",
    "ProgramPlan", "Record", "Tensor", "TreePlan", "WrappedCall", "__version__", "as_function",
    "cleanup_all_gpu_frameworks", "configure", "convert", "convert_memory", "convert_tree",
    "registered_pairs", "detect_memory_type", "dtype_policy", "explain", "explain_program",
    "explain_tree", "finish_dtype", "frameworks", "jax_callback", "load_table", "memory_types",
    "no_copy", "observe", "process_slices", "progress", "register_wrapper", "stack_slices",
    "thread_stream", "torch_op", "trace", "unstack_slices",
]  # fmt: skip

# One decorator for each table: `torch`, `jax`, ... They are attributes of this package, so they do
# not shadow the modules of the same names.


def _add(framework: dict[str, Any]) -> None:
    name = framework["name"]
    globals().setdefault(name, getattr(decorators, name))
    # The sets grow as well.
    for each in ("CPU_MEMORY_TYPES", "GPU_MEMORY_TYPES", "SUPPORTED_MEMORY_TYPES"):
        globals()[each] = getattr(types, each)


_tables.each(_add)

# Submodules that are imported when they are first used.
_SUBMODULES = {
    "array_geometry", "array_payload", "arrays", "compilers", "conversion", "converters",
    "converters_registry", "devices", "framework_config", "framework_ops", "functions",
    "gpu_cleanup", "libraries", "oom_recovery", "slice_processing", "stack_utils", "utils",
}  # fmt: skip
_OF_SUBMODULES = {
    "ProgramPlan": "compilers", "explain_program": "compilers", "jax_callback": "compilers",
    "torch_op": "compilers", "as_function": "functions",
}  # fmt: skip
__path__.append(compat.MODULES)


def __getattr__(name: str) -> Any:
    if name in _OF_SUBMODULES:
        return getattr(importlib.import_module(f"{__name__}.{_OF_SUBMODULES[name]}"), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    for framework in () if name.startswith("_") else frameworks():
        if framework["name"] == name:
            return getattr(decorators, name)
    return compat.find(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
