"""Conversions between frameworks."""

from . import convert, convert_memory, detect_memory_type, explain

__all__ = ["convert", "convert_memory", "detect_memory_type", "explain"]
