"""The schemas of operators of PyTorch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..stubs import ADDED  # type: ignore[attr-defined]

__all__: list[str] = []

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_SCHEMA_TYPES = {"bool": "bool", "int": "SymInt", "float": "float", "str": "str"}
# A declaration adds these, the last one for code written for the original package.
_ADDED = (*ADDED, "dtype_config")


def schema_of(function: Callable[..., Any], name: str, result: Any) -> str:
    """Return the schema of an operator, from the signature of its function."""
    is_declared = hasattr(function, "input_memory_type")
    parameters: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            if is_declared and parameter.name in _ADDED:
                continue
            if "*" not in parameters:
                parameters.append("*")
        text = _parameter(parameter)
        if text is None:
            raise TypeError(
                f"a schema of PyTorch cannot have the parameter '{parameter}' of {name}(); "
                'annotate it, or pass schema="(Tensor image, float sigma) -> Tensor" or the like'
            )
        parameters.append(text)
    results = f"({', '.join(['Tensor'] * len(result))})" if isinstance(result, tuple) else "Tensor"
    return f"({', '.join(parameters)}) -> {results}"


def _parameter(parameter: inspect.Parameter) -> str | None:
    """Return the text of a parameter; None if its type is unclear or its default has no text."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return None
    annotation, default = parameter.annotation, parameter.default
    if annotation is parameter.empty and default is not parameter.empty:
        annotation = type(default)
    words = annotation if isinstance(annotation, str) else _words(annotation)
    words = words.replace("typing.", "").removeprefix("Optional[")
    parts = [part.strip(" ]") for part in words.split("|")]
    is_optional = "Optional[" in str(annotation) or "None" in parts
    (first, *others) = [part for part in parts if part != "None"] or ["None"]
    if others or first.partition("[")[0] in _NO_TENSORS:
        return None
    kind = _SCHEMA_TYPES.get(first, "Tensor") + "?" * is_optional
    if default is parameter.empty:
        return f"{kind} {parameter.name}"
    shown = repr(default)
    if isinstance(default, str):
        shown = '"' + default.translate(_ESCAPES) + '"'
    text = f"{kind} {parameter.name}={shown}"
    return text if _is_parsed(text) else None


def _is_parsed(text: str) -> bool:
    """Return whether PyTorch can read a parameter. It cannot read infinity or 2**70, say."""
    try:
        torch._C.parse_schema(f"f({text}) -> Tensor")
    except (RuntimeError, IndexError):
        return False
    return True


# Types that are not arrays and have no counterpart here.
_NO_TENSORS = (
    "None", "NoneType", "complex", "bytes", "object", "tuple", "list", "dict", "set", "Tuple",
    "List", "Dict", "Sequence", "Iterable", "Callable", "Literal", "collections.abc.Sequence",
    "collections.abc.Iterable", "collections.abc.Callable",
)  # fmt: skip


def _words(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
