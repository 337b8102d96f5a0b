"""Declared Python functions are Python functions.

Each calls the ``Declared`` object of its declaration, which it has in a closure. If a function can
have its own vectorcall, Python goes straight to the object; otherwise it runs the code below.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def _code() -> types.CodeType:
    # Rust knows the code of these functions by the name of their only free variable.
    def _(__arraybridge_declared__: Any) -> Any:
        return lambda *args, **kwargs: (
            __arraybridge_declared__(*args, **kwargs) if kwargs else __arraybridge_declared__(*args)
        )

    code: types.CodeType = _(None).__code__
    # All instructions are on the first line, without columns (see CPython's InternalDocs).
    count = len(code.co_code) // 2
    entries = (bytes([0x80 | 13 << 3 | min(8, count - i) - 1, 0]) for i in range(0, count, 8))
    return code.replace(co_linetable=b"".join(entries))


_CODE = _code()


def function_of(declared: Any, function: types.FunctionType) -> Callable[..., Any]:
    """Return a function that calls ``declared`` and looks like ``function``.

    Tracebacks and profiles show it at the first line of ``function``.
    """
    theirs = function.__code__
    code = _CODE.replace(
        co_filename=theirs.co_filename,
        co_firstlineno=theirs.co_firstlineno,
        co_name=theirs.co_name,
        co_qualname=theirs.co_qualname,
    )
    cells = (types.CellType(declared),)
    call = types.FunctionType(code, function.__globals__, function.__name__, None, cells)
    functools.update_wrapper(call, function)
    # AutoGraph calls what has this attribute instead of translating its source.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call
