"""Conversions between frameworks."""

from ._core import convert, convert_memory, converters, detect_memory_type, explain

__all__ = ["convert", "convert_memory", "converters", "detect_memory_type", "explain"]
