"""Write type stubs for extension modules whose functions are declared in Rust."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ._core import _is_declared  # type: ignore[import-not-found]

__all__ = ["stub"]

# What stubs import, where they use it.
TYPING = ("Annotated", "Any", "NamedTuple")

# The keywords that a declaration adds are not annotated.
ADDED = {"dtype_conversion": "Any", "slice_by_slice": "bool"}


def stub(module: ModuleType) -> str:
    """Return the text of a ``.pyi`` file for a module's named tuples and declared functions.

    Frameworks have no common array class, so arrays are ``Any``, with what is known of them:
    ``Annotated[Any, "uint8 | float32, 2"]`` has two axes and one of these dtypes.
    ``python -m arraybridge stubs MODULE`` prints the text.

    >>> import types, numpy, arraybridge
    >>> from arraybridge.stubs import stub
    >>> module = types.ModuleType("filters")
    >>> @arraybridge.numpy
    ... def brighter(image, by: float = 1.0):
    ...     return image + by
    >>> module.brighter = brighter
    >>> print(*stub(module).splitlines()[2:5], sep="\\n")
    def brighter(
        image: Any,
        by: float = 1.0,
    """
    functions = {
        name: value
        for name, value in sorted(vars(module).items())
        if _is_declared(value) and not name.startswith("_")
    }
    texts = [_named_tuple(value) for value in vars(module).values() if _is_own_tuple(module, value)]
    texts += [_function(name, function) for name, function in functions.items()]
    names = [name for name in TYPING if name == "Any" or any(name in text for text in texts)]
    return "\n".join([f"from typing import {', '.join(names)}", "", *texts])


def _is_own_tuple(module: ModuleType, value: object) -> bool:
    """Whether something is a named tuple that the module defines."""
    is_tuple = isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")
    return is_tuple and getattr(value, "__module__", None) == module.__name__


def _named_tuple(value: Any) -> str:
    lines = [f"class {value.__name__}(NamedTuple):"]
    doc = inspect.getdoc(value)
    if doc and not doc.startswith(f"{value.__name__}("):
        lines.append(f"    {_docstring(_indented(doc))}\n")
    fields = getattr(value, "__annotations__", {})
    lines += [
        f"    {name}: {_annotated(_annotation(fields.get(name, Any)))}" for name in value._fields
    ]
    return "\n".join(lines) + "\n"


def _function(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    # `inspect` writes names, stars and slashes; annotations and defaults are added below.
    names = str(inspect.Signature(parameters))[1:-1].split(", ") if parameters else []
    by_name = signature.parameters
    shown = [_parameter(name, by_name.get(name.lstrip("*"))) for name in names]
    returned = _annotation(signature.return_annotation)
    if type(getattr(function, "__wrapped__", None)).__name__ == "RustFunction":
        shown, returned = [_annotated(text) for text in shown], _annotated(returned)
    head = _head(name, shown, returned)
    doc = inspect.getdoc(function)
    if not doc:
        return f"{head} ...\n"
    return f"{head}\n    {_docstring(_indented(doc))}\n"


def _indented(doc: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in doc.splitlines()).lstrip()


def _head(name: str, parameters: list[str], returned: str) -> str:
    joined = ", ".join(parameters)
    head = f"def {name}({joined}) -> {returned}:"
    if len(head) <= 100:
        return head
    if len(joined) > 96:
        joined = ",\n    ".join(parameters) + ","
    return f"def {name}(\n    {joined}\n) -> {returned}:"


def _annotated(text: str) -> str:
    """Write what the signature of a Rust function says of arrays so that type checkers read it."""
    text = re.sub(r"\bArray\[([^\]]*)\]", r'Annotated[Any, "\1"]', text)
    return re.sub(r"\bArray\b", "Any", text)


def _docstring(text: str) -> str:
    if text.endswith(('"', "\\")) or '"""' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"""{text}"""'
    prefix = "r" if "\\" in text else ""
    return f'{prefix}"""{text}"""'


def _parameter(name: str, parameter: inspect.Parameter | None) -> str:
    if parameter is None:
        return name
    annotation = ADDED.get(name) or _annotation(parameter.annotation)
    if parameter.default is inspect.Parameter.empty:
        return f"{name}: {annotation}"
    return f"{name}: {annotation} = {_default(parameter.default)}"


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)
