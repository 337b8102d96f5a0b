"""Convert between every pair of frameworks and places, and measure. ``doctor --full`` starts it."""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import arraybridge
import numpy

from .. import arrays
from ..arrays import End
from ..check.tables import dtype_of, tables
from ..child import Case, reporter, run_each

__all__ = ["measure"]

NBYTES = 2**24
ROUNDS = 7


def image_of(*names: str) -> numpy.ndarray:
    """An image of 16 MiB in a dtype that the frameworks have: float32, if they do."""
    first, *others = (tables()[name] for name in names)
    dtype = first.plain_dtype(set(first.dtypes).intersection(*(other.dtypes for other in others)))
    native = dtype_of(dtype)
    flat = numpy.arange(NBYTES // native.itemsize)
    return (flat % 2 if native.kind == "b" else flat).astype(native).reshape(-1, 2048)


def measure(source: str, here: str, target: str, there: str, device: str | None) -> dict[str, Any]:
    """Convert an image, check its values, and return how it went."""
    native = image_of(source, target)
    image = arraybridge.convert(native, source, device=here, copy=True)
    times = []
    for _ in range(ROUNDS):
        _finish(source, image)
        with arraybridge.trace() as records:
            start = time.perf_counter()
            result = arraybridge.convert(image, target, device=device)
            _finish(target, result)
            times.append(time.perf_counter() - start)
    record = records[0]
    if not (arraybridge.convert(result, "numpy") == native).all():
        return {"status": "failed", "reason": "the values changed"}
    if record.device != there:
        return {"status": "failed", "reason": f"the result is on {record.device}"}
    seconds = statistics.median(times)
    moved = record.route in ("copy", "move")
    return {
        "status": "works",
        "route": record.route,
        "how": record.how,
        "reason": record.why,
        "seconds": seconds,
        "gb_per_s": round(record.nbytes / seconds / 1e9, 2) if moved else None,
    }


def _finish(name: str, array: Any) -> None:
    if name in arrays.KNOWN:
        arrays.finish(name, array)


def _run(places: dict[str, list[str]], over: list[str], report: Callable[..., None]) -> None:
    for name in arrays.import_order(list(places)):
        arraybridge.convert(image_of(name)[:2, :2], name)
    ends = [(name, place) for name, found in places.items() for place in found]
    run_each((_case(source, target, places) for source in ends for target in ends), over, report)


def _case(source: End, target: End, places: dict[str, list[str]]) -> Case:
    name = "{} ({}) -> {} ({})".format(*source, *target)
    # Without an accelerator, what is measured is what happens by default.
    device = arrays.device_of(target, places)
    about = {"source": source[0], "from": source[1], "target": target[0], "to": target[1]}
    return name, about, partial(measure, *source, *target, device)


if __name__ == "__main__":
    # Sharing the memory of an immutable array is what is asked for here.
    warnings.simplefilter("ignore", arraybridge.SharedImmutableMemoryWarning)
    _run(json.loads(sys.argv[1]), json.loads(sys.argv[2]), reporter())
