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
    for column in _columns(data):
        values = numpy.asarray(column)
        if values.dtype.kind in "iu" and not _holds(array.dtype, values):
            name = getattr(column, "name", None)
            return "" if name is None else str(name)
    return None


def without_numbers(data: Any) -> list[str]:
    """Return the names of the columns of a table that hold no numbers."""
    return [
        str(column.name)
        for column in _columns(data)
        if column is not data and numpy.asarray(column).dtype.kind not in "biufc"
    ]


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
