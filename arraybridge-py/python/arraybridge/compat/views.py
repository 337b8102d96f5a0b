"""The facts that the original package keeps about each framework, read from this one's table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partialmethod
from types import MappingProxyType
from typing import Any

from .._core import convert, convert_memory, frameworks  # type: ignore[import-not-found]
from ..exceptions import UnknownFrameworkError
from ..types import Converter, MemoryType

_VIEW = MappingProxyType(
    {
        MemoryType(framework["name"]): MappingProxyType(
            {
                "import_name": framework["module"],
                "display_name": framework["title"],
                "is_gpu": framework["memory"] != "host",
                "has_oom_recovery": True,
            }
        )
        for framework in frameworks()
    }
)


def __getattr__(name: str) -> Any:
    if name not in ("_FRAMEWORK_CONFIG", "_FRAMEWORK_OPS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{name} is a read-only view of a part of the table; use arraybridge.frameworks()",
        DeprecationWarning,
        stacklevel=4,
    )
    return _VIEW


class ConverterBase(Converter):
    """A converter with the methods that the original package has for one framework."""

    __slots__ = ()
    __registry__: Mapping[str, Callable[[], ConverterBase]]

    def from_numpy(self, data: Any, gpu_id: int | None = None) -> Any:
        return convert_memory(data, "numpy", self.source, gpu_id)

    def from_dlpack(self, data: Any, gpu_id: int | None = None) -> Any:
        return self.move_to_device(convert(data, self.source), gpu_id)

    def move_to_device(self, data: Any, gpu_id: int | None = None) -> Any:
        return convert_memory(data, self.source, self.source, gpu_id)


def _class(name: str) -> Callable[[], ConverterBase]:
    members = {
        "__slots__": (),
        "__init__": partialmethod(Converter.__init__, name),
        "memory_type": name,
    }
    return type(f"{name.capitalize()}Converter", (ConverterBase,), members)


# A class that is added here would convert nothing.
ConverterBase.__registry__ = MappingProxyType({name.value: _class(name.value) for name in _VIEW})


def get_converter(memory_type: str) -> Converter:
    """Return the conversions from and to a framework.

    Raises ``UnknownFrameworkError``, a ``ValueError``, if there is no such framework.
    """
    warnings.warn(
        "get_converter is deprecated; use arraybridge.convert or MemoryType(..).converter",
        DeprecationWarning,
        stacklevel=2,
    )
    if memory_type not in _VIEW:
        reason = f"No converter registered for {memory_type!r}; known are {', '.join(_VIEW)}"
        raise UnknownFrameworkError(memory_type, memory_type, "name", reason)
    # Each class in the registry binds the source.
    return ConverterBase.__registry__[memory_type]()  # type: ignore[call-arg]
