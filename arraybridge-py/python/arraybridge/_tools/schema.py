"""Read tables without Rust, as far as possible: keys, ops, and the existence of names.

The build checks tables in full. This check is for ``add``, so that mistakes are reported at once
and not after minutes of compiling.
"""

from __future__ import annotations

import importlib
import importlib.util
import keyword
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import arraybridge

from .ops import fault

__all__ = ["find_class", "mistakes", "parse"]

# What the keys are: an op with the names that it can use besides `module`, or a plain value.
OP = tuple[str, ...]
REASONS: dict[str, OP | None] = {
    "why": None, "role": None, "when": ("data",), "then": ("data",), "kinds": None,
}  # fmt: skip
TABLE: dict[str, Any] = {
    "title": None, "classes": None, "dtypes": None, "module": None, "install": None,
    "memory": None, "immutable": None, "align": None, "cached_scalars": None, "no_dlpack": None,
    "no_slices": None,
    "isolate": {"libraries": None, "from": None},
    "init": (),
    "dtype": ("name",),
    "dtype_names": None,
    "missing": {"when": (), "dtypes": None, "hint": None},
    "ndim": None, "empty": None, "values": None,
    "refuse": {"why": None, "role": None, "classes": None},
    "guards": REASONS,
    "reasons": REASONS,
    "to_numpy": ("data",),
    "from_numpy": ("data", "dtype", "device"),
    "fast_to_numpy": None,
    "fast_from_numpy": {"create": ("data", "device"), "write": ("array", "data")},
    "copy": ("data",),
    "recording": (),
    "copy_recorded": ("data",),
    "transforming": (),
    "tracing": (),
    "translate": ("function",),
    "ready": ("data",),
    "lazy": None,
    "version": ("data",),
    "clear": (),
    "host_modules": None,
    "oom": {"class": None, "when": ("error",), "text": None},
    "export": {
        "op": ("data", "stream", "version"), "ordered_by": None, "buffer": None,
        "no_dlpack": None, "owner": ("data",), "pin": {"when": ("owner",), "op": ("owner",)},
    },
    "import": {
        "op": ("data", "capsule", "device", "dtype"), "devices": None, "strides": None,
        "align": None, "device_align": None, "read_only": None, "shares": None,
        "no_dlpack": None, "fast": ("capsule", "device"),
    },
    "device": {
        "count": (), "at": ("index",), "current": (), "default": (), "of": ("data",),
        "scope": ("device",), "host_scope": ("device",), "host": (), "hosts": (),
        "move": ("data", "device"), "uncommitted": ("data",), "beside": ("data", "other"),
    },
    "stream": {
        "current": ("device", "index"), "handle": ("stream",),
        "wrap": ("handle", "device", "index", "stream"), "scope": ("stream",),
    },
    "array": {
        "namespace": (), "min": ("xp", "data"), "max": ("xp", "data"), "round": ("xp", "data"),
        "clip": ("xp", "data", "low", "high"), "astype": ("xp", "data", "dtype"),
        "where": ("xp", "mask", "data", "other"), "stack": ("xp", "arrays"),
        "concatenate": ("xp", "arrays", "axis"), "unstack": ("xp", "data"),
        "write": ("xp", "array", "data"),
    },
    "check": {
        "environment": None,
        "examples": {"why": None, "array": None}, "too_much": None,
        "limits": {"line": None, "text": None, "why": None},
    },
}  # fmt: skip
REQUIRED = ("title", "classes", "dtypes")


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
    found += [f"[{name}] has no {key}; add it" for key in REQUIRED if key not in keys]
    found += _keys(f"[{name}]", keys, TABLE)
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
    for key, value in keys.items():
        if key not in known:
            yield f"unknown key {key} in {where}; known keys: {', '.join(known)}"
        elif isinstance(known[key], dict):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, dict):
                    yield from _keys(f"{where[:-1]}.{key}]", part, known[key])
                else:
                    yield f"{key} in {where} is not a table"
        elif known[key] is not None:
            for op in value if isinstance(value, list) else [value]:
                yield from _op(f"{key} in {where}", op, known[key])


def _op(where: str, op: Any, scope: OP) -> Iterator[str]:
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
