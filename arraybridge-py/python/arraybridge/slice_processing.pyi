from . import process_slices as process_slices

__all__ = ["process_slices"]
