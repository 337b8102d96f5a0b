"""Write type stubs for extension modules whose functions are declared in Rust."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import re
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ._core import Declared, _is_declared  # type: ignore[import-not-found]
from ._declared.function import extended

__all__ = ["stub"]

# The imports of stubs, as far as they use them.
TYPING = ("Annotated", "Any", "NamedTuple")

# The keywords that a declaration adds, which no signature shows.
ADDED = {"dtype_conversion": "Any", "slice_by_slice": "bool", "out": "Any"}

# The signature of functions in C that do not provide one.
UNKNOWN = inspect.signature(lambda *args, **kwargs: None)


def stub(module: ModuleType) -> str:
    """Return the text of a ``.pyi`` file for a module of declared functions.

    It includes the module's classes and other functions of Rust, whose types are unknown.

    Frameworks have no common array class, so arrays are ``Any``, annotated with the known facts:
    ``Annotated[Any, "uint8 | float32, 2"]`` has two axes and one of these dtypes.
    ``python -m arraybridge stubs MODULE`` prints the text.

    >>> import types, numpy, arraybridge
    >>> from arraybridge.stubs import stub
    >>> module = types.ModuleType("filters")
    >>> @arraybridge.numpy
    ... def brighter(image, by: float = 1.0):
    ...     return image + by
    >>> module.brighter = brighter
    >>> print(*stub(module).splitlines()[2:], sep="\\n")
    def brighter(
        image: Any, by: float = 1.0, *, dtype_conversion: Any = None, slice_by_slice: bool = False
    ) -> Any: ...
    """
    named = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    texts = [_named_tuple(value) for value in named.values() if _is_named_tuple(module, value)]
    texts += [_class(value) for value in named.values() if _is_native(module, value)]
    functions = {name: named[name] for name in sorted(named) if _is_own(module, named[name])}
    texts += [_function(name, function) for name, function in functions.items()]
    names = [name for name in TYPING if any(name in text for text in texts)] or ["Any"]
    head = f"from typing import {', '.join(names)}\n\n"
    return _with_builtins_apart(head + "\n".join(texts))


def _with_builtins_apart(text: str) -> str:
    """Write ``builtins.bytes`` for the type where a function or method is called ``bytes`` too.

    A name of a class hides a name of the module, which hides a built-in one:
    https://typing.python.org/en/latest/guides/writing_stubs.html
    """
    tree = ast.parse(text)
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    scopes: list[ast.Module | ast.ClassDef] = [tree, *classes]
    places = {(node.lineno - 1, node.col_offset) for scope in scopes for node in _hidden(scope)}
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for line, column in sorted(places, reverse=True):
        lines[line] = lines[line][:column] + b"builtins." + lines[line][column:]
    return "import builtins\n" * bool(places) + b"".join(lines).decode()


def _hidden(scope: ast.Module | ast.ClassDef) -> list[ast.Name]:
    """Find built-in types in the annotations of a scope, in which other things have their names."""
    fields = (node.target for node in scope.body if isinstance(node, ast.AnnAssign))
    others = {node.id for node in fields if isinstance(node, ast.Name)}
    others |= {node.name for node in scope.body if isinstance(node, ast.FunctionDef)}
    names = (node for node in ast.walk(scope) if isinstance(node, ast.Name))
    return [
        node
        for node in names
        if node.id in others and isinstance(node.ctx, ast.Load) and hasattr(builtins, node.id)
    ]


def _is_own(module: ModuleType, value: object) -> bool:
    """Return whether an object is a declared function, or another function of an extension."""
    is_native = inspect.isbuiltin(value) and _is_of(module, value)
    return is_native or _is_declared(value)


def _is_of(module: ModuleType, value: object) -> bool:
    """Return whether a module defines an object, or its namesake in a package of maturin does."""
    where = getattr(value, "__module__", None) or ""
    return where == module.__name__ or where.startswith(f"{module.__name__}.")


def _is_named_tuple(module: ModuleType, value: object) -> bool:
    """Return whether an object is a named tuple that the module defines."""
    is_tuple = isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")
    return is_tuple and _is_of(module, value)


def _is_native(module: ModuleType, value: object) -> bool:
    """Return whether an object is a class of the module that is not written in Python.

    PyO3 gives "builtins" as the module of a class if its author named none.
    """
    if not isinstance(value, type) or not inspect.isbuiltin(vars(value).get("__new__")):
        return False
    is_unnamed = value.__module__ == "builtins" and not hasattr(builtins, value.__name__)
    return is_unnamed or _is_of(module, value)


def _class(value: type) -> str:
    doc = inspect.getdoc(value)
    parts = [_docstring(doc) + "\n\n"] if doc else []
    fields = {name: f for name, f in vars(value).items() if inspect.isgetsetdescriptor(f)}
    parts += [f"{name}: Any\n" for name in sorted(fields) if not name.startswith("_")]
    with contextlib.suppress(ValueError):
        parts.append(_method("__init__", inspect.signature(value)))
    for name, member in sorted(vars(value).items()):
        if name not in vars(object) and name not in fields and callable(getattr(value, name)):
            parts.append(_member(value, name, member))
    body = "".join(parts) or "...\n"
    return f"class {value.__name__}:\n" + textwrap.indent(body, "    ")


def _method(name: str, signature: inspect.Signature) -> str:
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [this, *signature.parameters.values()]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.POSITIONAL_ONLY not in kinds[1:]:
        parameters[0] = this.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = inspect.Signature(parameters)
    text = ", ".join(_parameters(shown)).replace("self: Any", "self", 1)
    return f"def {name}({text}) -> None: ...\n"


def _member(cls: type, name: str, member: Any) -> str:
    bound = getattr(cls, name)
    decorator = ""
    if isinstance(member, staticmethod) or _is_static(cls, member):
        decorator = "@staticmethod\n"
    elif getattr(bound, "__self__", None) is cls:
        decorator, bound = "@classmethod\n", getattr(bound, "__func__", member)
    text = re.sub(r"\b(self|cls): Any", r"\1", _function(name, bound), count=1)
    return decorator + text


def _is_static(cls: type, member: Any) -> bool:
    return _is_declared(member) and member.__get__(object(), cls) is member


def _named_tuple(value: Any) -> str:
    lines = [f"class {value.__name__}(NamedTuple):"]
    doc = inspect.getdoc(value)
    if doc and not doc.startswith(f"{value.__name__}("):
        lines.append(f"{_docstring(doc, '    ')}\n")
    fields = getattr(value, "__annotations__", {})
    for name in value._fields:
        default = " = ..." if name in value._field_defaults else ""
        lines.append(f"    {name}: {_annotated(_annotation(fields.get(name, Any)))}{default}")
    return "\n".join(lines) + "\n"


def _function(name: str, function: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        signature = UNKNOWN
    if _is_declared(function):
        made: Any = function
        owner = made if isinstance(made, Declared) else made.__closure__[0].cell_contents
        signature = extended(signature, owner._added, ADDED)
    shown = _parameters(signature)
    returned = _annotation(signature.return_annotation)
    if type(getattr(function, "__wrapped__", None)).__name__ == "RustFunction":
        shown, returned = [_annotated(text) for text in shown], _annotated(returned)
    head = _head(name, shown, returned)
    doc = inspect.getdoc(function)
    if not doc:
        return f"{head} ...\n"
    return f"{head}\n{_docstring(doc, '    ')}\n"


def _parameters(signature: inspect.Signature) -> list[str]:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    # `inspect` writes names, stars and slashes; annotations and defaults are added below.
    names = str(inspect.Signature(parameters))[1:-1].split(", ") if parameters else []
    by_name = signature.parameters
    return [_parameter(name, by_name.get(name.lstrip("*"))) for name in names]


def _head(name: str, parameters: list[str], returned: str) -> str:
    joined = ", ".join(parameters)
    head = f"def {name}({joined}) -> {returned}:"
    if len(head) <= 100:
        return head
    if len(joined) > 96:
        joined = ",\n    ".join(parameters) + ","
    return f"def {name}(\n    {joined}\n) -> {returned}:"


def _annotated(text: str) -> str:
    """Write the arrays in the signature of a Rust function in a form for type checkers."""
    text = re.sub(r"\bArray\[([^\]]*)\]", r'Annotated[Any, "\1"]', text)
    return re.sub(r"\bArray\b", "Any", text)


def _docstring(text: str, indent: str = "") -> str:
    text = "\n".join(f"{indent}{line}".rstrip() for line in text.splitlines()).lstrip()
    if text.endswith(('"', "\\")) or '"""' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{indent}"""{text}"""'
    prefix = "r" if "\\" in text else ""
    return f'{indent}{prefix}"""{text}"""'


def _parameter(name: str, parameter: inspect.Parameter | None) -> str:
    if parameter is None:
        return name
    is_annotated = parameter.annotation is not inspect.Parameter.empty
    annotation = _annotation(parameter.annotation) if is_annotated else "Any"
    if parameter.default is inspect.Parameter.empty:
        return f"{name}: {annotation}"
    return f"{name}: {annotation} = {_default(parameter.default)}"


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    annotation = getattr(annotation, "__forward_arg__", annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    try:
        ast.parse(text)
    except SyntaxError:  # that of an object that is no type, or a text that is no Python
        return "Any"
    return text


def _default(value: object) -> str:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)
