"""Read tables without Rust, as far as possible: keys, ops, and the existence of names.

The build checks tables in full. This check is for ``add``, so that mistakes are reported at once
and not after minutes of compiling.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import keyword
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import arraybridge
from arraybridge import _core

from .ops import fault

__all__ = ["find_class", "mistakes", "parse"]

# The keys that the build knows, as it knows them.
KEYS: dict[str, Any] = json.loads(_core._KEYS)["keys"]


def parse(label: str, text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the tables in a text, and its mistakes as TOML."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return {}, [f"{label}: {error}"]
    flat = [name for name, keys in found.items() if not isinstance(keys, dict)]
    return {n: keys for n, keys in found.items() if n not in flat}, [
        f"{label}: {name} is outside of a table; begin with the name of the framework: [name]"
        for name in flat
    ]


def mistakes(label: str, name: str, keys: dict[str, Any]) -> list[str]:
    """Return the mistakes in a table, one line each."""
    found = [*_name(name)]
    found += _keys(f"[{name}]", keys, KEYS)
    if not found:
        found += _existing(name, keys)
    return [f"{label}: {each}" for each in found]


def _name(name: str) -> Iterator[str]:
    """Check the name of a table as that of a decorator. The build also knows Rust's keywords."""
    modules = {module.name for module in pkgutil.iter_modules(arraybridge.__path__)}
    used = {"input", *dir(arraybridge), *modules}
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        yield f"[{name}] cannot name a table; use lower-case letters, digits and underscores"
    elif keyword.iskeyword(name):
        yield f"[{name}] is a keyword and cannot name a table; use another name"
    elif name in used and name not in {each["name"] for each in arraybridge.frameworks()}:
        yield f"[{name}] is a name of the package and cannot name a table; use another name"


def _keys(where: str, keys: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    for key, of in known.items():
        if of.get("required") and key not in keys:
            yield f"{where} has no {key}; add it"
    for key, value in keys.items():
        if key not in known:
            yield f"unknown key {key} in {where}; known keys: {', '.join(known)}"
        elif (inner := known[key].get("keys")) is not None:
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, dict):
                    yield from _keys(f"{where[:-1]}.{key}]", part, inner)
                else:
                    yield f"{key} in {where} is not a table"
        elif (scope := known[key].get("scope")) is not None:
            for op in value if isinstance(value, list) else [value]:
                yield from _op(f"{key} in {where}", op, scope)


def _op(where: str, op: Any, scope: list[str]) -> Iterator[str]:
    if not isinstance(op, str):
        yield f"{where} is not an op in a string"
    elif (wrong := fault(op, ("module", *scope))) is not None:
        yield f"{where}: {wrong}"


def _existing(name: str, keys: dict[str, Any]) -> Iterator[str]:
    """Check the existence of names, if the framework is installed."""
    module = keys.get("module", name)
    try:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            return
        importlib.import_module(module)
    except ImportError as error:
        yield f"[{name}]: import {module}: {error}"
        return
    except ValueError:
        return
    listed = keys["classes"]
    if not any(map(find_class, listed)):
        yield f"classes in [{name}]: none of {', '.join(listed)} exists in the installed version"
    for rule in keys.get("oom", []):
        if find_class(rule["class"]) is None and len(keys["oom"]) == 1:
            yield f"oom in [{name}]: {rule['class']} does not exist in the installed version"


def find_class(name: str) -> type | None:
    """Return the class of a qualified name; None if the installed version has none."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        if isinstance(found, type):
            return found
    return None
