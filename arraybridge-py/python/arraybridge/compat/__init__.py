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

# The names that each module of the original package has, by the submodule of this one.
_HERE: dict[str, dict[str, tuple[str, ...]]] = {
    "arraybridge": {
        "configs": ("SliceBySliceRuntimeParameter",),
        "contracts": ("MemoryContractAttribute", "wrap_dtype_preserving_callable"),
        "devices": ("HOST", "AcceleratorDevice", "Device", "HostDevice", "NamedDevice"),
        "helpers": ("_ensure_module", "_get_device_id", "_supports_dlpack"),
        "libraries": ("Array", "ArrayLibrary"),
        "memory": ("_execute_with_oom_recovery",),
        "observers": (
            "ConversionCounters",
            "ConversionObserver",
            "ConversionRecord",
            "ConversionRoute",
        ),
        "payloads": ("ArrayGeometry", "ArrayPayload"),
        "views": ("_FRAMEWORK_CONFIG", "_FRAMEWORK_OPS"),
    },
    "arraybridge.decorators": {
        "configs": (
            "PRESERVE_INPUT_DTYPE_CONFIG",
            "DtypeConversion",
            "DtypeConversionConfig",
            "PreserveInputDtypeConfig",
            "SliceBySliceRuntimeParameter",
            "_create_dtype_wrapper",
        ),
        "contracts": ("wrap_dtype_preserving_callable",),
    },
    "arraybridge.oom_recovery": {
        "memory": ("_clear_cache_for_memory_type", "_execute_with_oom_recovery", "_is_oom_error"),
    },
    "arraybridge.stack_utils": {
        "helpers": ("_enforce_gpu_device_requirements", "_is_2d", "_is_3d"),
    },
    "arraybridge.types": {
        "constants": ("VALID_GPU_MEMORY_TYPES", "VALID_MEMORY_TYPES"),
        "contracts": ("MemoryContractAttribute",),
    },
    "arraybridge.utils": {
        "helpers": (
            "_ensure_module",
            "_get_device_id",
            "_move_to_device",
            "_supports_cuda_array_interface",
            "_supports_dlpack",
        ),
    },
}


def find(module: str, name: str) -> Any:
    """Return the object of the original package with a name in one of its modules.

    Raises ``AttributeError`` if the name does not exist there.

    >>> from arraybridge import compat
    >>> "torch" in compat.find("arraybridge.types", "VALID_MEMORY_TYPES")
    True
    """
    places = _HERE.get(module, {}).items()
    place = next((place for place, names in places if name in names), None)
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
