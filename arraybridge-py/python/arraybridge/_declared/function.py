"""Declared Python functions are Python functions.

Each calls the ``Declared`` object of its declaration, which it has in a closure. If a function can
have its own vectorcall, Python goes straight to the object; otherwise it runs the code below.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from .._graphs.dynamo import in_graph, is_compiling, read_objects

__all__: list[str] = []


def _code() -> types.CodeType:
    # Rust knows the code of these functions by the name of their only free variable.
    def _(__arraybridge_declared__: Any) -> Any:
        return lambda *args, **kwargs: (
            __arraybridge_declared__._in_graph(__arraybridge_declared__, args, kwargs)
            if (compiling := getattr(__arraybridge_declared__, "_is_compiling", None))
            and compiling()
            else __arraybridge_declared__(*args, **kwargs)
            if kwargs
            else __arraybridge_declared__(*args)
        )

    code: types.CodeType = _(None).__code__
    # All instructions are on the first line, without columns (see CPython's InternalDocs).
    count = len(code.co_code) // 2
    entries = (bytes([0x80 | 13 << 3 | min(8, count - i) - 1, 0]) for i in range(0, count, 8))
    return code.replace(co_linetable=b"".join(entries))


_CODE = _code()


def function_of(declared: Any, function: Any) -> Callable[..., Any]:
    """Return a function that calls ``declared`` and looks like ``function``.

    Tracebacks and profiles show it at the first line of ``function``, or of the function that this
    wraps.
    """
    own = function if isinstance(function, types.FunctionType) else function.__wrapped__
    theirs = own.__code__
    # A free-threaded CPython counts references to functions that are made inside others.
    nested = inspect.CO_NESTED
    code = _CODE.replace(
        co_flags=_CODE.co_flags & ~nested | theirs.co_flags & nested,
        co_filename=theirs.co_filename,
        co_firstlineno=theirs.co_firstlineno,
        co_name=theirs.co_name,
        co_qualname=theirs.co_qualname,
    )
    cells = (types.CellType(declared),)
    call = types.FunctionType(code, own.__globals__, own.__name__, None, cells)
    functools.update_wrapper(call, function)
    # AutoGraph calls what has this attribute instead of translating its source.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


class Binding(enum.IntEnum):
    """How a function in the body of a class is bound. Rust has these numbers too."""

    INSTANCE, CLASS, STATIC = range(3)


class Kind(enum.IntEnum):
    """What a function returns. Rust has these numbers too."""

    PLAIN, COROUTINE, GENERATOR, ASYNC_GENERATOR = range(4)


def about(function: Any) -> tuple[Any, Binding, str, Kind]:
    """Return a function inside a method, its binding, its name in messages, and its kind.

    The name of a partial is that of its function, and that of any other callable object its class:
    their own ``repr`` may contain whole arrays.
    """
    binding = Binding.INSTANCE
    if isinstance(function, (classmethod, staticmethod)):
        binding = Binding.CLASS if isinstance(function, classmethod) else Binding.STATIC
        function = function.__func__
    if not callable(function):
        raise TypeError(f"a declaration is for a function, not for {type(function).__name__}")
    named = function
    while isinstance(named, functools.partial):
        named = named.func
    name = getattr(named, "__qualname__", None)
    # The kind of another object is that of its method.
    codes = (function, type(function).__call__)
    kinds = {
        Kind.COROUTINE: inspect.iscoroutinefunction,
        Kind.GENERATOR: inspect.isgeneratorfunction,
        Kind.ASYNC_GENERATOR: inspect.isasyncgenfunction,
    }
    kind = next((kind for kind, is_it in kinds.items() if any(map(is_it, codes))), Kind.PLAIN)
    return function, binding, name if isinstance(name, str) else type(named).__qualname__, kind


def extended(
    signature: inspect.Signature, added: Mapping[str, Any], annotations: Mapping[str, Any]
) -> inspect.Signature:
    """Return a signature with those of the added keywords that have annotations.

    ``added`` has their defaults.
    """
    parameters = list(signature.parameters.values())
    ends = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    last = [parameters.pop()] if ends else []
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=annotations[name])
        for name, default in added.items()
        if name in annotations
    ]
    return signature.replace(parameters=[*parameters, *last])


def _shown(signature: inspect.Signature, added: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature that a declared function shows: its own.

    OpenHCS looks for the keywords of the original package there, and for their types.
    """
    if "openhcs" not in sys.modules:
        return signature
    from ..compat.configs import ANNOTATIONS

    return extended(signature, added, ANNOTATIONS)


# What an object has of its function besides `__dict__`. `inspect` finds the kind of a function by
# its code and its defaults.
_COPIED = (
    "__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__code__",
    "__defaults__", "__kwdefaults__",
)  # fmt: skip


def dress(
    declared: Any,
    function: Any,
    signature: tuple[inspect.Signature, list[tuple[str, bool | None]]] | None,
    memory_types: tuple[str, str, str],
    options: Mapping[str, Any],
    is_coroutine: bool,
) -> None:
    """Give a declared function the attributes that it shows.

    Those of ``function`` are copied if there is one. ``signature`` is the function's own, with the
    added keywords and their defaults.
    """
    if function is not None:
        declared.__dict__.update(getattr(function, "__dict__", {}))
        # An object that can be called, such as a torch module, need not have a name.
        declared.__name__ = type(function).__name__
        declared.__qualname__ = type(function).__qualname__
        for name in _COPIED:
            if hasattr(function, name):
                setattr(declared, name, getattr(function, name))
        declared.__wrapped__ = function
    added = dict(signature[1]) if signature else {}
    if signature is not None:
        declared.__signature__ = _shown(signature[0], added)
    declared.input_memory_type, declared.output_memory_type, declared.execution_memory_type = (
        memory_types
    )
    # Python goes straight to the object if it can. Dynamo and CPython 3.11 read the code above.
    owner = declared.__closure__[0].cell_contents if function is None else declared
    owner._in_graph = in_graph(declared.__wrapped__, memory_types, options)
    owner._is_compiling, owner._added = is_compiling, added
    read_objects()
    # A Rust function writes to what it takes as an `ArrayViewMut`.
    if writes := options.get("writes") or options.get("written"):
        declared._writes = writes
    if "contract" in options:
        contract = declared.contract = options["contract"]
        if contract is not None and not callable(contract):
            # The original package's runtimes read it.
            declared.__processing_contract__ = contract
    if is_coroutine and sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(declared)
