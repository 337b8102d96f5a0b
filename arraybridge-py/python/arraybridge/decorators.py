"""The decorators: one for each framework of the table, and ``memory_types``.

>>> import numpy
>>> from arraybridge.decorators import numpy as on_numpy
>>> @on_numpy
... def brighter(image, by=1):
...     return image + by
>>> brighter(numpy.zeros(2, dtype="uint8"))
array([1, 1], dtype=uint8)

Transformations of a function's own framework, such as ``jax.jit``, ``jax.grad``, ``tf.function``
and ``torch.func.grad``, go through a declared function; ``torch.compile`` breaks its graph there.

A call whose framework runs out of memory is made again: with every cache given back, then part by
part where ``split_axis`` allows it, then on the host. A function that writes into its arguments
before it fails may do so twice, unless torch's version counter tells; ``oom_recovery=False`` turns
this off.
"""

from __future__ import annotations

from . import _core
from ._core import Declared, Decorator, memory_types

_OF_THE_TABLES = _core.decorators()

__all__ = ["Declared", "Decorator", "memory_types", *_OF_THE_TABLES]

globals().update(_OF_THE_TABLES)
