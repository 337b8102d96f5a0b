"""The frameworks as an enum, made from the tables of this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar, Union

from . import compat
from ._core import _frameworks, convert_memory, frameworks
from ._tables import each

__all__ = [
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SUPPORTED_MEMORY_TYPES",
    "ArrayLike",
    "Converter",
    "MemoryType",
]


_Array = TypeVar("_Array")

# The stub says what these are.
ArrayLike = Union[_Array, Any]  # noqa: UP007


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
    def _missing_(cls, value: object) -> Any:
        # Tables of installed packages are read when they are needed.
        frameworks()
        return cls._value2member_map_.get(value)

    @classmethod
    def subprocess_environment(cls, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a copy of an environment, by default of this process's, for another process."""
        return dict(os.environ if environment is None else environment)


_CONVERTERS: dict[str, Converter] = {}

MemoryType = _MemoryType(
    "MemoryType",
    {framework["name"].upper(): framework["name"] for framework in _frameworks()},
    module="arraybridge",
)
MemoryType.__doc__ = """The frameworks by name: ``MemoryType.TORCH == "torch"``.

>>> import arraybridge
>>> arraybridge.MemoryType("jax") is arraybridge.MemoryType.JAX
True
"""

CPU_MEMORY_TYPES: frozenset[Any] = frozenset()
GPU_MEMORY_TYPES: frozenset[Any] = frozenset()
SUPPORTED_MEMORY_TYPES: frozenset[Any] = frozenset()


def _add(framework: Mapping[str, Any]) -> None:
    name = framework["name"]
    setattr(Converter, f"to_{name}", _method(name, framework["title"]))
    _CONVERTERS[name] = Converter(name)
    if name not in MemoryType._value2member_map_:
        _add_member(name)
    global CPU_MEMORY_TYPES, GPU_MEMORY_TYPES, SUPPORTED_MEMORY_TYPES
    if framework["memory"] == "host":
        CPU_MEMORY_TYPES |= {MemoryType(name)}
    else:
        GPU_MEMORY_TYPES |= {MemoryType(name)}
    SUPPORTED_MEMORY_TYPES = CPU_MEMORY_TYPES | GPU_MEMORY_TYPES


def _add_member(value: str) -> None:
    """Give ``MemoryType`` another member, as the class statement does."""
    member = str.__new__(MemoryType, value)
    member._name_, member._value_ = value.upper(), value
    member._sort_order_ = len(MemoryType)
    type.__setattr__(MemoryType, member.name, member)
    MemoryType._member_map_[member.name] = MemoryType._value2member_map_[value] = member
    MemoryType._member_names_.append(member.name)


each(_add)


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
