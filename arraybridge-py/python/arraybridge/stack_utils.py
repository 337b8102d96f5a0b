"""Stack, split and concatenate arrays."""

from ._core import concatenate, part, stack_slices, unstack_slices

__all__ = ["concatenate", "part", "stack_slices", "unstack_slices"]
