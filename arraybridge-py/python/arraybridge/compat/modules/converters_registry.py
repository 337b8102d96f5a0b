"""The converters of the original package. Use ``arraybridge.convert``."""

from arraybridge.compat.views import get_converter

__all__ = ["get_converter"]
