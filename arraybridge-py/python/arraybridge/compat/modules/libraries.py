"""Frameworks as objects."""

from arraybridge.compat.libraries import Array, ArrayLibrary

__all__ = ["Array", "ArrayLibrary"]
