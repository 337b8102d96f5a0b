"""The converters of the original package. Use ``arraybridge.convert``."""

from arraybridge.compat.views import ConverterBase, get_converter

__all__ = ["ConverterBase", "get_converter"]
