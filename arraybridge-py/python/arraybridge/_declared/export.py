"""The Rust functions of an extension module, declared as the decorators declare Python functions.

Rust describes each function by a dict. Here it gets what inspection shows, its options, and its
declaration.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

from .. import _core
from .function import Binding

__all__: list[str] = []


class Usage(enum.IntEnum):
    """What a Rust function does with an argument. Rust has these numbers too."""

    VALUE, OBJECT, OPENED, WRITTEN = range(4)


# What binds a function, by `Binding`.
_BINDS: tuple[Any, ...] = (lambda function: function, classmethod, staticmethod)

# The flags of a class that is not static, and of one that may not change.
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def declare(
    module: ModuleType, entries: list[dict[str, Any]], tuples: Sequence[str]
) -> list[tuple[str, Any]]:
    """Declare the functions of a module, and return them with their names.

    Methods are put into their classes instead. ``tuples`` are the names of the named tuples.
    """
    entries.sort(key=lambda entry: (entry["method"] is not None, entry["name"], entry["module"]))
    functions = [entry for entry in entries if entry["method"] is None]
    for one, other in pairwise(functions):
        if one["name"] == other["name"]:
            raise ImportError(
                f"two declared functions are called {one['name']}, in {one['module']} and in "
                f"{other['module']}; give one of them another `name`"
            )
    for entry in entries:
        _describe(entry, module, tuples)
    classes = [entry["method"][0] for entry in entries if entry["method"]]
    _name_module(module, [*classes, *vars(module).values()])
    declared = []
    for entry in entries:
        owner, binding = entry["method"] or (None, Binding.INSTANCE)
        bound = _BINDS[binding](entry["function"])
        made = _core._declare(bound, entry["framework"], _options(entry, functions))
        if owner is None:
            declared.append((entry["name"], made))
        else:
            setattr(owner, entry["name"], made)
    return declared


def _describe(entry: Mapping[str, Any], module: ModuleType, tuples: Sequence[str]) -> None:
    """Give a function its names, its docstring and its signature."""
    function, name = entry["function"], entry["name"]
    function.__name__ = function.__qualname__ = name
    if entry["method"]:
        function.__qualname__ = f"{entry['method'][0].__qualname__}.{name}"
    function.__doc__, function.__module__ = entry["docs"], module.__name__
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name,
            kind,
            annotation=resolved(annotation, tuples) if annotation else empty,
            default=default[0] if default else empty,
        )
        for name, annotation, _, default in entry["parameters"]
    ]
    returns = resolved(entry["annotation"], tuples)
    function.__signature__ = inspect.Signature(parameters, return_annotation=returns)


def _name_module(module: ModuleType, values: Iterable[Any]) -> None:
    """Give classes the name of the module that they are in.

    PyO3 takes those whose ``#[pyclass]`` names no module for built-in ones. Python's own classes
    are static, and those that may not change are left as they are.
    """
    for value in values:
        if (
            isinstance(value, type)
            and value.__flags__ & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE
            and value.__module__ == "builtins"
        ):
            value.__module__ = module.__name__


def _options(entry: Mapping[str, Any], functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the declaration of a function as the decorators take it."""

    def used(least: Usage) -> list[str]:
        return [name for name, _, usage, _ in entry["parameters"] if usage >= least]

    options = {
        "output_type": entry["output"],
        "arrays": used(Usage.OBJECT),
        "opened": used(Usage.OPENED),
        "written": used(Usage.WRITTEN),
        "delivers": True,
        "shown": tuple(entry["keywords"]),
    }
    for name, value, is_function in entry["settings"]:
        if is_function:
            options[name] = _declared(entry, value, functions)
        else:
            options[name] = tuple(value) if isinstance(value, list) else value
    return options


def _declared(entry: Mapping[str, Any], ident: str, functions: Sequence[Mapping[str, Any]]) -> Any:
    """Return the function of a Rust name: the one in the same Rust module, or the only one."""
    found = [other for other in functions if other["ident"] == ident]
    near = [other for other in found if other["module"] == entry["module"]]
    if near or len(found) == 1:
        return (near or found)[0]["function"]
    why = "is declared more than once" if found else "is not declared"
    raise ImportError(
        f"{entry['name']} names the function {ident}, which {why}; declare it once with "
        "#[memory_type(..)]"
    )


def named_tuple(
    name: str, docs: str, module: str, fields: Sequence[tuple[str, str]], tuples: Sequence[str]
) -> Any:
    """Return the class of a Rust struct, whose fields are given with their annotations."""
    # Checkers take a call of `namedtuple` for the declaration of a class.
    make: Any = namedtuple
    made = make(name, [field for field, _ in fields], module=module)
    made.__annotations__ = {field: resolved(text, tuples) for field, text in fields}
    if docs:
        made.__doc__ = docs
    return made


def resolved(annotation: str, tuples: Sequence[str]) -> str:
    """Return an annotation in which the names of structs, ``Name?``, are classes or ``Any``."""
    return re.sub(r"(\w+)\?", lambda found: found[1] if found[1] in tuples else "Any", annotation)
