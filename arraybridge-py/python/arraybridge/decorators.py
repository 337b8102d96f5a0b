"""The decorators: one for each framework of the table, and ``memory_types``.

>>> import numpy
>>> from arraybridge.decorators import numpy as on_numpy
>>> @on_numpy
... def brighter(image, by=1):
...     return image + by
>>> brighter(numpy.zeros(2, dtype="uint8"))
array([1, 1], dtype=uint8)

Transformations of a function's own framework, such as ``jax.jit``, ``jax.grad``, ``tf.function``,
``torch.func.grad`` and ``torch.compile``, work on a declared function. To call functions of other
frameworks inside compiled programs, use ``arraybridge.jax_callback`` and ``arraybridge.torch_op``.
With ``differentiable=True``, the gradients of one framework flow through a function of another.

If the framework runs out of memory, the call is retried: with all caches cleared, then in parts if
``split_axis`` is set, then on the host. If a function writes to its arguments before it fails, it
may therefore write twice. torch arguments are safe, because torch counts writes. For other
frameworks, disable retries with ``oom_recovery=False``.
"""

from __future__ import annotations

from typing import Any

from . import _core, compat
from ._core import Declared
from ._decorator import Decorator, memory_types

_OF_THE_TABLES = {each["name"]: Decorator(each["name"]) for each in _core.frameworks()}

__all__ = ["Declared", "Decorator", "memory_types", *_OF_THE_TABLES]

globals().update(_OF_THE_TABLES)


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
