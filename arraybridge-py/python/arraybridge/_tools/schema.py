"""Check tables before a build: by the parser of the build, and for the existence of names."""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from arraybridge import _core

__all__ = ["find_class", "installed", "mistakes"]


def mistakes(files: Mapping[str, str], imports: bool = True) -> list[str]:
    """Return the mistakes in the texts of files: those of the build, or else missing names.

    To find these, the modules that the tables name are imported.
    """
    found = _core._mistakes(list(files.items()))
    if found or not imports:
        return found
    return [
        f"{label}: {each}"
        for label, text in files.items()
        for name, keys in tomllib.loads(text).items()
        for each in _existing(name, keys)
    ]


def _existing(name: str, keys: dict[str, Any]) -> Iterator[str]:
    """Check the existence of names, if the framework is installed."""
    module = keys.get("module", name)
    if not installed(module.partition(".")[0]):
        return
    try:
        importlib.import_module(module)
    except ImportError as error:
        yield f"[{name}]: import {module}: {error}"
        return
    except ValueError:
        return
    listed = keys["classes"]
    # A class written in C may say that its module is builtins, where it is not.
    if not any(each.startswith("builtins.") or find_class(each) for each in listed):
        yield f"classes in [{name}]: none of {', '.join(listed)} exists in the installed version"
    for rule in keys.get("oom", []):
        if find_class(rule["class"]) is None and len(keys["oom"]) == 1:
            yield f"oom in [{name}]: {rule['class']} does not exist in the installed version"


def installed(module: str) -> bool:
    """Return whether a module can be found. Only its parents are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def find_class(name: str) -> type | None:
    """Return the class of a qualified name; None if the installed version has none."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
            # A package may import a module where its name is read.
            for part in parts[cut:]:
                found = getattr(found, part, None)
        except ImportError:
            continue
        if isinstance(found, type):
            return found
    return None
