"""The ops of tables, evaluated in Python: attributes, calls, indexing, literals, one comparison.

An op has no other names than those of its scope, and none of Python's own functions.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any

__all__ = ["evaluate", "uses"]

COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _parsed(op: str) -> ast.expr:
    return ast.parse(op.strip(), mode="eval").body


def uses(op: str, name: str) -> bool:
    """Return whether an op uses a name of its scope."""
    found = ast.walk(_parsed(op))
    return any(isinstance(node, ast.Name) and node.id == name for node in found)


def evaluate(op: str, scope: Mapping[str, Any]) -> Any:
    """The value of an op. Raises ``ValueError`` for what is not one."""
    return _value(_parsed(op), scope)


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in scope:
            return scope[name]
        case ast.Attribute(value=of, attr=name):
            return getattr(_value(of, scope), name)
        case ast.Subscript(value=of, slice=index):
            return _value(of, scope)[_value(index, scope)]
        case ast.Call(func=function, args=given, keywords=named):
            arguments = [_value(each, scope) for each in given]
            by_name = {str(each.arg): _value(each.value, scope) for each in named}
            return _value(function, scope)(*arguments, **by_name)
        case ast.List(elts=elements):
            return [_value(each, scope) for each in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(each, scope) for each in elements)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, scope)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if (
            type(comparison) in COMPARISONS
        ):
            return COMPARISONS[type(comparison)](_value(left, scope), _value(right, scope))
    raise ValueError(f"{ast.unparse(node)!r} is not a part of an op that uses {', '.join(scope)}")
