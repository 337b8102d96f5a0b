"""Stacks of 2-D slices, and parts of arrays."""

from ._core import concatenate, part, stack_slices, unstack_slices

__all__ = ["concatenate", "part", "stack_slices", "unstack_slices"]
