"""Examine one framework, in a process of its own. ``doctor`` starts it.

Each step is reported before it is taken, so a crash can be attributed to its step.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import arraybridge
import numpy

from ..check.tables import dtype_of, tables, words
from ..child import reporter
from ..schema import installed
from .details import DETAILS

__all__ = ["examine"]

MOST_DEVICES = 64


def examine(name: str, module: str, others: list[str], report: Callable[..., None]) -> None:
    """Report whether a framework is installed and works, and its devices."""
    report(step="import")
    if not installed(module):
        report(status="missing")
        return
    start = time.perf_counter()
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:  # a package may exit, or raise what is not an Exception
        report(status="broken", error=f"import {module}: {words(error)}")
        return
    report(
        version=str(getattr(loaded, "__version__", "?")),
        import_s=round(time.perf_counter() - start, 2),
    )
    report(step="conversion")
    try:
        report(**_used(name))
    except Exception as error:
        report(status="broken", error=words(error))
    report(step="devices")
    try:
        report(**(DETAILS[name](loaded) if name in DETAILS else {}))
    except Exception as error:
        report(details_error=words(error))
    if name == "tensorflow" and "pyclesperanto" in others and installed("pyclesperanto"):
        # TensorFlow and PoCL each bring an LLVM. The second to be loaded may crash the process.
        report(step="OpenCL after TensorFlow")
        try:
            _round_trip("pyclesperanto", None)
        except arraybridge.DeviceUnavailableError:
            report(opencl_second="no device")
        except Exception as error:
            report(opencl_second=words(error))
        else:
            report(opencl_second="works")


def _used(name: str) -> dict[str, Any]:
    """Make a round trip by default, and over each accelerator."""
    try:
        by_default = _round_trip(name, None)
    except arraybridge.DeviceUnavailableError as error:
        return {"status": "no device", "used": [], "reason": error.reason}
    used = [by_default]
    for index in range(MOST_DEVICES):
        place = f"accelerator:{index}"
        if place in used:
            continue
        try:
            used.append(_round_trip(name, place))
        except arraybridge.DeviceUnavailableError:
            break
    return {"status": "works", "used": used}


def _round_trip(name: str, device: str | None) -> str:
    table = tables()[name]
    dtype = "uint16" if "uint16" in table.dtypes else table.plain_dtype()
    shape = table.plain_shape()
    image = numpy.arange(math.prod(shape)).astype(dtype_of(dtype)).reshape(shape)
    there = arraybridge.convert(image, name, device=device)
    place = arraybridge.explain(there, name).device
    back = arraybridge.convert(there, "numpy")
    if back.dtype != image.dtype or not (back == image).all():
        raise ValueError(f"an image of {dtype} came back from {place} with other values")
    return str(place)


if __name__ == "__main__":
    examine(sys.argv[1], sys.argv[2], sys.argv[3:], reporter())
