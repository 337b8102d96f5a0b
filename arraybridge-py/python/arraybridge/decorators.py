"""The decorators: one for each framework of the table, and ``memory_types``.

>>> import numpy
>>> from arraybridge.decorators import numpy as on_numpy
>>> @on_numpy
... def brighter(image, by=1):
...     return image + by
>>> brighter(numpy.zeros(2, dtype="uint8"))
array([1, 1], dtype=uint8)
"""

from __future__ import annotations

from . import _core
from ._core import Declared, Decorator, memory_types

_OF_THE_TABLES = _core.decorators()

__all__ = ["Declared", "Decorator", "memory_types", *_OF_THE_TABLES]

globals().update(_OF_THE_TABLES)
