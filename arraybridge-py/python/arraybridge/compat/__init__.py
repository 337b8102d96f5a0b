"""Names of the original package, arraybridge 0.2 to 0.5, that other projects import.

Each is a thin stand-in for something in the submodules of this package. Nothing else depends on
this folder: without it, and without the lines that call ``find``, only these names are gone.

``modules`` holds submodules that only the original package has, such as ``framework_config``.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["MODULES", "find", "of_member"]

# Not by `pathlib`, which takes longer to import than this package.
MODULES = os.path.join(os.path.dirname(__file__), "modules")
"""The folder of the submodules that only the original package has."""

_HERE = {
    "arraybridge": {
        "HOST": "devices",
        "AcceleratorDevice": "devices",
        "Array": "libraries",
        "ArrayGeometry": "payloads",
        "ArrayLibrary": "libraries",
        "ArrayPayload": "payloads",
        "ConversionCounters": "observers",
        "ConversionObserver": "observers",
        "ConversionRecord": "observers",
        "ConversionRoute": "observers",
        "Device": "devices",
        "HostDevice": "devices",
        "MemoryContractAttribute": "contracts",
        "NamedDevice": "devices",
        "SliceBySliceRuntimeParameter": "configs",
        "_FRAMEWORK_CONFIG": "views",
        "_FRAMEWORK_OPS": "views",
        "_ensure_module": "helpers",
        "_execute_with_oom_recovery": "memory",
        "_get_device_id": "helpers",
        "_supports_dlpack": "helpers",
        "wrap_dtype_preserving_callable": "contracts",
    },
    "arraybridge.decorators": {
        "PRESERVE_INPUT_DTYPE_CONFIG": "configs",
        "DtypeConversion": "configs",
        "DtypeConversionConfig": "configs",
        "PreserveInputDtypeConfig": "configs",
        "SliceBySliceRuntimeParameter": "configs",
        "_create_dtype_wrapper": "configs",
        "wrap_dtype_preserving_callable": "contracts",
    },
    "arraybridge.oom_recovery": {
        "_clear_cache_for_memory_type": "memory",
        "_execute_with_oom_recovery": "memory",
        "_is_oom_error": "memory",
    },
    "arraybridge.stack_utils": {
        "_enforce_gpu_device_requirements": "helpers",
        "_is_2d": "helpers",
        "_is_3d": "helpers",
    },
    "arraybridge.types": {
        "MemoryContractAttribute": "contracts",
        "VALID_GPU_MEMORY_TYPES": "constants",
        "VALID_MEMORY_TYPES": "constants",
    },
    "arraybridge.utils": {
        "_ensure_module": "helpers",
        "_get_device_id": "helpers",
        "_move_to_device": "helpers",
        "_supports_cuda_array_interface": "helpers",
        "_supports_dlpack": "helpers",
    },
}


def find(module: str, name: str) -> Any:
    """Return the object of the original package with a name in one of its modules.

    Raises ``AttributeError`` if the name does not exist there.

    >>> from arraybridge import compat
    >>> "torch" in compat.find("arraybridge.types", "VALID_MEMORY_TYPES")
    True
    """
    place = _HERE.get(module, {}).get(name)
    if module == "arraybridge.types" and name.startswith("MEMORY_TYPE_"):
        place = "constants"
    if place is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{place}"), name)


def of_member(framework: str, name: str) -> Any:
    """Return an attribute that a member of ``MemoryType`` has in the original package.

    Raises ``AttributeError`` if it has none of that name.
    """
    libraries = importlib.import_module(f"{__name__}.libraries")
    library = libraries.ArrayLibrary.named(framework)
    try:
        return library if name == "library" else getattr(library, name)
    except AttributeError:
        raise AttributeError(f"'MemoryType' object has no attribute {name!r}") from None
