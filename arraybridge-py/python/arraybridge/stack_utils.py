"""Stack, split and concatenate arrays."""

from __future__ import annotations

from typing import Any

from . import compat
from ._core import concatenate, part, stack_slices, unstack_slices

__all__ = ["concatenate", "part", "stack_slices", "unstack_slices"]


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
