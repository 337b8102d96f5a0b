"""Private helpers of the original package."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from .._core import convert_memory, device_id  # type: ignore[import-not-found]
from ..exceptions import UnsupportedArrayError
from ..types import GPU_MEMORY_TYPES


def _ensure_module(module_name: str) -> ModuleType:
    """Import a module. Raises ``ImportError`` if that fails."""
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(f"{module_name} is required, but not available: {error}") from error


def _supports_dlpack(obj: Any) -> bool:
    """Return whether an object exports its memory by DLPack."""
    return hasattr(obj, "__dlpack__")


def _supports_cuda_array_interface(obj: Any) -> bool:
    """Return whether an object exports its memory by the CUDA array interface."""
    return hasattr(obj, "__cuda_array_interface__")


def _get_device_id(data: Any, memory_type: str) -> int | None:
    """Return the index of the accelerator that an array is on; None for the host.

    None also for an object that is not an array.
    """
    try:
        return device_id(data)
    except UnsupportedArrayError:
        return None


def _move_to_device(data: Any, memory_type: str, device_id: int) -> Any:
    """Return an array on another accelerator of its framework."""
    return convert_memory(data, memory_type, memory_type, device_id)


def _is_2d(data: Any) -> bool:
    """Return whether an object has a shape of two axes."""
    return len(getattr(data, "shape", ())) == 2


def _is_3d(data: Any) -> bool:
    """Return whether an object has a shape of three axes."""
    return len(getattr(data, "shape", ())) == 3


def _enforce_gpu_device_requirements(memory_type: str, gpu_id: int) -> None:
    """Raise ``ValueError`` for a negative index of an accelerator."""
    if memory_type in GPU_MEMORY_TYPES and gpu_id < 0:
        raise ValueError(f"Invalid GPU device ID: {gpu_id} is negative")
