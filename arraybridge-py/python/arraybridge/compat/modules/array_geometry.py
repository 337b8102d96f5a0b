"""Shapes of arrays."""

from arraybridge.compat.payloads import ArrayGeometry

__all__ = ["ArrayGeometry"]
