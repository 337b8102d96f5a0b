"""Private helpers of the original package."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from .._core import device_id, execute_with_oom_recovery  # type: ignore[import-not-found]

_execute_with_oom_recovery = execute_with_oom_recovery


def _ensure_module(module_name: str) -> ModuleType:
    """Import a module. Raises ``ImportError`` if that fails."""
    return importlib.import_module(module_name)


def _supports_dlpack(obj: Any) -> bool:
    """Return whether an object exports its memory by DLPack."""
    return hasattr(obj, "__dlpack__")


def _get_device_id(data: Any, memory_type: str) -> int | None:
    """Return the index of the accelerator that an array is on; None for the host."""
    return device_id(data)
