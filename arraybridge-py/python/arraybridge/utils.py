"""Helpers for frameworks that may not be installed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NoReturn

from . import compat
from ._core import device_id, loaded_frameworks

__all__ = ["device_id", "loaded_frameworks", "optional_import"]


class _ModulePlaceholder:
    """Stands in for a missing module. It is falsy, and a call of it raises ImportError."""

    def __init__(self, module_name: str, why: str = "the package is not installed") -> None:
        self._module_name = module_name
        self._why = why

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> _ModulePlaceholder:
        if name.startswith("__"):
            raise AttributeError(name)
        return _ModulePlaceholder(f"{self._module_name}.{name}", self._why)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImportError(f"{self._module_name} is not available: {self._why}")

    def __repr__(self) -> str:
        return f"<ModulePlaceholder for {self._module_name}>"


def optional_import(module_name: str) -> ModuleType | _ModulePlaceholder:
    """Import a module, or return a stand-in that is falsy and raises ImportError when it is called.

    >>> from arraybridge.utils import optional_import
    >>> bool(optional_import("no_such_module"))
    False
    """
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        absent = error.name is not None and f"{module_name}.".startswith(f"{error.name}.")
        return _ModulePlaceholder(
            module_name, "the package is not installed" if absent else _broken(error)
        )
    except Exception as error:  # A broken package can raise anything.
        return _ModulePlaceholder(module_name, _broken(error))


def _broken(error: Exception) -> str:
    return f"the package is installed but broken ({type(error).__name__}: {error})"


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
