"""Helpers for frameworks that may not be installed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NoReturn

from ._core import device_id, loaded_frameworks

__all__ = ["device_id", "loaded_frameworks", "optional_import"]


class _Missing:
    """Stands in for a module that is missing. It is falsy, and calling it raises ImportError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> _Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImportError(f"cannot use {self._name}: the package is not installed")

    def __repr__(self) -> str:
        return f"<missing module {self._name}>"


def optional_import(module_name: str) -> ModuleType | _Missing:
    """Import a module, or return a stand-in that is falsy and raises ImportError when it is called.

    >>> from arraybridge.utils import optional_import
    >>> bool(optional_import("no_such_module"))
    False
    """
    try:
        return importlib.import_module(module_name)
    except ImportError:
        return _Missing(module_name)
