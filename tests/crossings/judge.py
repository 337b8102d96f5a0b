"""Run the program of a row, and compare what it gives with what it has to give."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from typing import Any

import bridges
import model
import numpy as np
import program

Row = dict[str, str]
MODULES = {
    "numpy": "numpy", "torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow",
    "pyclesperanto": "pyclesperanto", "pyclesperanto_opencl": "pyclesperanto", "zarr": "zarr",
}  # fmt: skip
HOLDERS = {
    "xarray": "xarray.core.dataarray.DataArray", "data frame": "pandas.DataFrame",
    "quantity": "astropy.units.quantity.Quantity", "dask": "dask.array.core.Array",
    "subclass": "crossing.Image", "masked": "numpy.ma.MaskedArray",
}  # fmt: skip


def judge(row: Row, text: str | None = None) -> dict[str, str]:
    """Return the kind of a row's outcome, and what is wrong.

    The kinds are `right`, `refused`, `raised`, `wrong` and `model`, with what they are about.
    """
    names: dict[str, Any] = {"__name__": "crossing"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text or program.program(row), "<crossing>", "exec"), names)
        except Exception as error:
            return _raised(error)
        finally:
            if "jax" in bridges.INSTALLED:
                sys.modules["jax"].config.update("jax_enable_x64", False)
        try:
            expected = model.expected(row)
        except Exception:
            return {"kind": "model", "about": "", "text": traceback.format_exc()}
        try:
            difference = _difference(expected.result, names["result"], "the result")
            array = model.Array(row["source"], expected.array)
            difference = difference or _difference(array, names["array"], "the caller's array")
            difference = difference or _place(row, names)
        except Exception as error:
            if (found := _raised(error))["kind"] == "refused":
                return found
            difference = "read", "cannot be read: " + traceback.format_exc(limit=-2)
    kind, text = difference or ("", "")
    return {"kind": "wrong" if text else "right", "about": kind, "text": text}


def _place(row: Row, names: dict[str, Any]) -> tuple[str, str] | None:
    """What is wrong with the memory of the result: another `out`, device or flag."""
    result = names["result"]
    first = result[0] if isinstance(result, tuple) and result else result
    if row["out"] != "none" and first is not names["out"]:
        return "out", f"the result is another {type(first).__name__} than out"
    if row["further"] == "writable" and type(first) is np.ndarray and not first.flags.writeable:
        return "out", "the result cannot be written to"
    is_second = row["layout"] == "second device" and row["holder"] == "bare"
    # `jax.numpy.where` takes nothing from an empty array, which a program does not get then.
    is_second &= not (row["shape"] == "empty" and row["mode"] == "jit")
    if is_second and _framework(first) == "jax":
        devices = [device.id for device in first.devices()]
        return ("device", f"the result is on {devices}") if devices != [1] else None
    return None


def _raised(error: Exception) -> dict[str, str]:
    cls = type(error)
    is_ours = any(base.__module__.split(".")[0] == "arraybridge" for base in cls.__mro__)
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    text = f"{cls.__name__}: {str(error)[:1500]}{notes}"
    kind = "refused" if is_ours else "raised"
    return {"kind": kind, "about": cls.__name__, "text": text}


def _framework(x: Any) -> str:
    roots = (base.__module__.split(".")[0] for base in type(x).__mro__)
    return next((MODULES[root] for root in roots if root in MODULES), "")


def _host(x: Any) -> np.ndarray:
    framework = _framework(x)
    if framework == "zarr":
        return np.asarray(x[...])
    dtype, shape, bits = bridges.read(framework, x)
    return np.frombuffer(bits, bridges.np_dtype(dtype)).reshape(shape)


def _difference(expected: Any, got: Any, where: str) -> tuple[str, str] | None:
    """What differs from the expected value, and how."""
    if isinstance(expected, model.Held):
        cls = type(got)
        is_held = f"{cls.__module__}.{cls.__qualname__}" == HOLDERS[expected.holder]
        # What is not of the lead's shape may be an array alone.
        if expected.labels != "all" and not is_held:
            return _difference(expected.array, got, where)
        if not is_held:
            return "holder", f"{where} is a {cls.__name__}, and not a {HOLDERS[expected.holder]}"
        return _held(expected, got, where)
    if isinstance(expected, model.Array):
        if _framework(got) != expected.framework or isinstance(got, np.generic):
            return "type", f"{where} is a {type(got)}, not an array of {expected.framework}"
        if expected.framework == "numpy" and type(got) not in (np.ndarray, np.memmap):
            return "holder", f"{where} is a {type(got).__name__}, not a plain array"
        return _values(expected.values, _host(got), where)
    if isinstance(expected, np.generic) and isinstance(got, np.generic):
        return _values(np.asarray(expected), np.asarray(got), where)
    if type(expected) is not type(got):
        return "type", f"{where} is a {type(got).__name__}, not a {type(expected).__name__}"
    if isinstance(expected, (tuple, list, dict)):
        keys, own = (list(x) if isinstance(x, dict) else range(len(x)) for x in (expected, got))
        if list(keys) != list(own):
            return "type", f"{where} has the elements {list(own)}, not {list(keys)}"
        found = (_difference(expected[key], got[key], f"{where}[{key!r}]") for key in keys)
        return next(filter(None, found), None)
    # NaN is not equal to itself.
    is_same = expected == got or (expected != expected and got != got)
    return None if is_same else ("values", f"{where} is {got!r}, not {expected!r}")


def _held(expected: model.Held, got: Any, where: str) -> tuple[str, str] | None:
    """What differs in an object with an array inside."""
    values = expected.array.values
    if expected.holder == "subclass" and got.note != "kept":
        return "labels", f"{where} has lost its note: {got.note}"
    if expected.holder == "quantity" and got.unit != "m":
        return "labels", f"{where} has the unit {got.unit}"
    if expected.holder == "xarray":
        axes, has_x = tuple("zyx"[3 - values.ndim :]), "x" in got.coords
        is_right = has_x and np.array_equal(got.x, np.arange(values.shape[-1]) / 2)
        wrong = {
            "all": got.dims != axes or not is_right,
            "some": has_x and not is_right,
            "axes": has_x,
            "none": not {*got.dims}.isdisjoint("zyx"),
        }
        if wrong[expected.labels]:
            return "labels", f"{where} has the axes {got.dims} and the coordinates {got.coords}"
        got = got.data
    elif expected.holder == "dask":
        got = got.compute()
    inside = got.view(np.ndarray) if isinstance(got, np.ndarray) else np.asarray(got)
    return _values(values, _host(got) if expected.holder == "xarray" else inside, where)


def _values(expected: np.ndarray, got: np.ndarray, where: str) -> tuple[str, str] | None:
    if got.dtype.name != expected.dtype.name:
        return "dtype", f"{where} has the dtype {got.dtype.name}, not {expected.dtype.name}"
    if got.shape != expected.shape:
        return "shape", f"{where} has the shape {got.shape}, not {expected.shape}"
    if got.tobytes() != expected.tobytes():
        text = re.sub(r"\n\n+", "\n", f"{where} is\n{got}\nand not\n{expected}")
        return "writes" if "caller" in where else "values", text
    return None
