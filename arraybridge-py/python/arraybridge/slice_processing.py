"""Functions of 2-D slices, applied to a 3-D array."""

from ._core import process_slices

__all__ = ["process_slices"]
