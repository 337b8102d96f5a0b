"""Apply a function for 2-D slices to a 3-D array."""

from . import process_slices

__all__ = ["process_slices"]
