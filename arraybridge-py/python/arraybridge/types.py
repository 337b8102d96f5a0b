"""The frameworks as an enum, made from the tables of this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, Union

from . import compat
from ._core import convert_memory, frameworks

__all__ = [
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SUPPORTED_MEMORY_TYPES",
    "ArrayLike",
    "Converter",
    "MemoryType",
]


_Array = TypeVar("_Array")

ArrayLike = Union[_Array, Any]  # noqa: UP007
"""The annotation of a parameter that takes arrays of all frameworks.

``ArrayLike[torch.Tensor]`` is a ``torch.Tensor`` in the function, since the declaration converts
the argument, and anything in its calls. Type checkers accept ``f(numpy.zeros(3))`` then.

>>> import numpy, arraybridge
>>> @arraybridge.numpy
... def doubled(image: arraybridge.ArrayLike[numpy.ndarray]) -> numpy.ndarray:
...     return image * 2
>>> doubled(numpy.ones(2))
array([2., 2.])
"""


class Converter:
    """Conversions from one framework: ``to_numpy``, ``to_torch`` and so on, one for each framework.

    >>> import numpy, arraybridge
    >>> zeros = numpy.zeros((2, 3), dtype="float32")
    >>> arraybridge.MemoryType.NUMPY.converter.to_numpy(zeros) is zeros
    True
    """

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = str(source)

    @property
    def memory_type(self) -> str:
        """The source framework."""
        return self.source

    def __repr__(self) -> str:
        return f"<converter from {self.source}>"


def _method(target: str, title: str) -> Any:
    def to(self: Converter, data: Any, gpu_id: int | None = None) -> Any:
        return convert_memory(data, self.source, target, gpu_id)

    to.__name__ = f"to_{target}"
    to.__qualname__ = f"Converter.to_{target}"
    to.__doc__ = (
        f"Convert ``data``, of any shape, to {title}, on accelerator ``gpu_id`` if given.\n\n"
        "Raises ``MemoryConversionError`` or a subclass, like ``convert_memory``."
    )
    return to


class _MemoryType(StrEnum):
    @property
    def converter(self) -> Converter:
        """The conversions from this framework."""
        return _CONVERTERS[self.value]

    def __getattr__(self, name: str) -> Any:
        # `MemoryType.NUMPY.to_torch(data)` is short for `.converter.to_torch(data)`.
        if name.startswith("to_") and hasattr(Converter, name):
            return getattr(self.converter, name)
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return compat.of_member(self.value, name)

    @classmethod
    def subprocess_environment(cls, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a copy of an environment, by default of this process's, for another process."""
        return dict(os.environ if environment is None else environment)


_TABLE = frameworks()

for _framework in _TABLE:
    _name = _framework["name"]
    setattr(Converter, f"to_{_name}", _method(_name, _framework["title"]))

_CONVERTERS = {framework["name"]: Converter(framework["name"]) for framework in _TABLE}

MemoryType = _MemoryType(
    "MemoryType",
    {framework["name"].upper(): framework["name"] for framework in _TABLE},
    module="arraybridge",
)
MemoryType.__doc__ = """The frameworks by name: ``MemoryType.TORCH == "torch"``.

>>> import arraybridge
>>> arraybridge.MemoryType("jax") is arraybridge.MemoryType.JAX
True
"""

CPU_MEMORY_TYPES = frozenset(MemoryType(f["name"]) for f in _TABLE if f["memory"] == "host")
"""The frameworks whose arrays are in host memory only, as members of ``MemoryType``.

>>> import arraybridge
>>> "numpy" in arraybridge.CPU_MEMORY_TYPES, "torch" in arraybridge.CPU_MEMORY_TYPES
(True, False)
"""

SUPPORTED_MEMORY_TYPES = frozenset(MemoryType)
"""All frameworks that the package was built with, as members of ``MemoryType``.

>>> import arraybridge
>>> arraybridge.SUPPORTED_MEMORY_TYPES == {*arraybridge.MemoryType}
True
"""

GPU_MEMORY_TYPES = SUPPORTED_MEMORY_TYPES - CPU_MEMORY_TYPES
"""The frameworks whose arrays can be on an accelerator, as members of ``MemoryType``.

The set depends on the frameworks, not on the machine: it is the same without a GPU.

>>> import arraybridge
>>> "numpy" in arraybridge.GPU_MEMORY_TYPES, "torch" in arraybridge.GPU_MEMORY_TYPES
(False, True)
"""


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
