"""The class of all arrays."""

from arraybridge.compat.libraries import Array

__all__ = ["Array"]
