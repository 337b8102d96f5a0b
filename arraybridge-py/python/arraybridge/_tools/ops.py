"""The ops of tables, evaluated in Python: attributes, calls, indexing, literals, one comparison.

An op has no other names than those of its scope, and none of Python's own functions.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["evaluate", "fault", "uses"]

COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


# What an op consists of.
NODES = (
    ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Name, ast.Tuple, ast.List,
    ast.Compare, ast.keyword, ast.UnaryOp, ast.USub, ast.Load, *COMPARISONS,
)  # fmt: skip


def _parsed(op: str) -> ast.expr:
    return ast.parse(op.strip(), mode="eval").body


def fault(op: str, names: Collection[str]) -> str | None:
    """Return the mistake in an op that can use some names; None if there is none."""
    try:
        tree = _parsed(op)
    except SyntaxError as error:
        return f"{op!r} is not a Python expression: {error.msg}"
    for node in ast.walk(tree):
        if not isinstance(node, NODES):
            shape = type(node).__name__
            return f"{op!r} has a {shape}; write attributes, calls, indexing and literals"
        if isinstance(node, ast.Name) and node.id not in names:
            return f"{op!r} uses {node.id}; it can use {', '.join(names)}"
    return None


def uses(op: str, name: str) -> bool:
    """Return whether an op uses a name of its scope."""
    found = ast.walk(_parsed(op))
    return any(isinstance(node, ast.Name) and node.id == name for node in found)


def evaluate(op: str, scope: Mapping[str, Any]) -> Any:
    """The value of an op. Raises ``ValueError`` for what is not one."""
    wrong = fault(op, tuple(scope))
    if wrong is not None:
        raise ValueError(wrong)
    return _value(_parsed(op), scope)


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
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
        case ast.UnaryOp(operand=operand):
            return -_value(operand, scope)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return COMPARISONS[type(comparison)](_value(left, scope), _value(right, scope))
    raise ValueError(f"{ast.unparse(node)!r} has several comparisons; write one")
