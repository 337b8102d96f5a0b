"""The columns of tables, which NumPy may make floats of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

__all__: list[str] = []


def inexact(data: Any, array: numpy.ndarray) -> str | None:
    """Return the name of the first column whose integers the floats of an array cannot hold.

    ``data`` is the table or the column that the array was made of. The name is empty if there is
    none, and None stands for no such column.
    """
    if not _may_have_integers(data):
        return None
    for column in _columns(data):
        values = numpy.asarray(column)
        if values.dtype.kind in "iu" and not _holds(array.dtype, values):
            name = getattr(column, "name", None)
            return "" if name is None else str(name)
    return None


def way(data: Any) -> str:
    """Return the way to the numbers of a table, or of a column, that NumPy sees as objects."""
    if not hasattr(data, "columns"):
        return "make numbers of its values first"
    dtypes = [(column.name, numpy.asarray(column).dtype) for column in _columns(data)]
    others = [str(name) for name, dtype in dtypes if dtype.kind not in _NUMBERS]
    if others:
        return f"pass its numbers, without the columns {others}"
    return (
        'pass .to_numpy("float64"), or say dtype="float64", which is input_dtype= of a declared '
        "function"
    )


def numbers(data: Any) -> numpy.ndarray | None:
    """Return the array of a table whose columns are bools and numbers, or None.

    pandas has no dtype that both have, and would make objects of them. Its integers become floats
    if other columns are floats.
    """
    dtypes = [numpy.asarray(column).dtype for column in _columns(data)]
    if not hasattr(data, "to_numpy") or any(dtype.kind not in _NUMBERS for dtype in dtypes):
        return None
    try:
        return data.to_numpy(numpy.result_type(*dtypes))
    except (TypeError, ValueError):
        # A value is missing, and the dtype has no NaN.
        return None


_NUMBERS = "biufc"


def _may_have_integers(data: Any) -> bool:
    """Return whether a table may have a column of integers, by its dtypes."""
    dtypes: Any = getattr(data, "dtypes", None)
    return not all(map(_is_float, dtypes if hasattr(dtypes, "__iter__") else [dtypes]))


def _is_float(dtype: Any) -> bool:
    asked = getattr(dtype, "is_float", None)  # of Polars
    return bool(asked()) if callable(asked) else getattr(dtype, "kind", "") in ("f", "c", "b")


def _columns(data: Any) -> Iterable[Any]:
    """The columns of a data frame without missing values, or a column."""
    if hasattr(data, "iter_columns"):
        columns = data.iter_columns()
    elif hasattr(data, "columns") and hasattr(data, "items"):
        columns = (column for _, column in data.items())
    else:
        columns = [data]
    for column in columns:
        drop = next(filter(None, (getattr(column, name, None) for name in _DROPS)), None)
        yield column if drop is None else drop()


_DROPS = ("dropna", "drop_nulls", "drop_null")


def _holds(dtype: numpy.dtype, integers: numpy.ndarray) -> bool:
    floats = integers.astype(dtype)
    # Beyond the largest integer, the cast back means nothing.
    bits = integers.itemsize * 8 - (integers.dtype.kind == "i")
    below = floats < 2.0**bits
    back = numpy.where(below, floats, 0).astype(integers.dtype)
    return bool(((back == integers) & below).all())
