"""The checks of ``selftest``, in a process of their own.

Arrays are made and read by their frameworks (``arrays``). A check raises ``AssertionError`` or any
other exception if it fails, and returns how many conversions it made.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import arraybridge
import numpy

from .. import arrays
from ..arrays import End
from ..check.between import Pair
from ..check.tables import same, tables
from ..child import reporter, run_each

__all__ = ["checks"]

Check = Callable[[], int]

DTYPES = (
    "bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64",
)  # fmt: skip
IMAGE = numpy.arange(3 * 16 * 16, dtype="float32").reshape(3, 16, 16)
# Large enough that a device is still at work when the last step has been queued.
LONG = (4096, 4096)
LONG_STEPS = 100
LONG_ROUNDS = 3
THREADS = 4
TABLES = tables()


def pair_of(source: End, target: End, device: str | None = None) -> Pair:
    """The conversions from one end to another."""
    start, end = (TABLES[name].at(place) for name, place in (source, target))
    return Pair(end, start, end, device)


def check_pair(source: End, target: End, device: str | None) -> int:
    """Convert every dtype and layout, with and without sharing."""
    pair, made = pair_of(source, target, device), 0
    for dtype in DTYPES:
        try:
            made += pair.convert_all(dtype)
        except AssertionError as error:
            raise AssertionError(f"{dtype}, {error}") from error
    return made


def check_declared(name: str, sources: list[End]) -> int:
    """Call a declared function with the arrays of every framework."""
    for source in sources:
        pair_of(source, (name, "")).check_declared()
    return len(sources)


def check_ladder(name: str, place: str) -> int:
    """Raise MemoryError in a declared function, and see that each kind of retry is made."""
    decorator = getattr(arraybridge, name)
    tried = {"clear": decorator(on_oom=("clear",))(fails(lambda image, calls: calls == 1))}
    split = decorator(split_axis=0, join="concatenate", on_oom=("split",))
    tried["split"] = split(fails(lambda image, calls: image.shape[0] > 1))
    always = fails(lambda image, calls: True)
    if name == "numpy":  # the others may be on the host already
        tried["host"] = decorator(host=fails(lambda image, calls: False), on_oom=("host",))(always)
    for how, function in tried.items():
        with arraybridge.trace() as records:
            result = function(arrays.make(name, IMAGE, place))
        retries = [record.how for record in records if record.route == "retry"]
        assert retries == [how], f"the retries were {retries} instead of {how}"
        same(arrays.read(name, result), IMAGE * 2)
    try:
        decorator(on_oom=("clear",))(always)(arrays.make(name, IMAGE, place))
    except MemoryError as error:
        assert getattr(error, "__notes__", None), "the exception does not say what was tried"
    else:
        raise AssertionError("the exception of the function was lost")
    return len(tried) + 1


def fails(when: Callable[[Any, int], bool]) -> Callable[[Any], Any]:
    """A function that doubles an image, or raises MemoryError if its argument and calls say so."""
    calls = 0

    def double(image: Any) -> Any:
        nonlocal calls
        calls += 1
        if when(image, calls):
            raise MemoryError("made up by the selftest")
        return image + image

    return double


def check_threads(ends: list[End], places: dict[str, list[str]]) -> int:
    """Convert between all pairs in several threads at once, each with its own values."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            image = numpy.full((64, 64), number, "float32")
            for source in ends:
                for target in ends:
                    x = arrays.make(source[0], image, source[1])
                    device = arrays.device_of(target, places)
                    y = arraybridge.convert(x, target[0], device=device)
                    same(arrays.read(target[0], y), image)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return THREADS * len(ends) ** 2


def long_work(name: str, place: str) -> Any:
    """An array that is still being computed, and whose values are then all LONG_STEPS."""
    x = arrays.make(name, numpy.zeros(LONG, "float32"), place)
    with arrays.scope(name, place):
        for _ in range(LONG_STEPS):
            x = x + 1
    return x


@contextlib.contextmanager
def side_stream(name: str, place: str) -> Iterator[None]:
    """Makes a new stream of the framework current, which waits for no other."""
    module = importlib.import_module(name)
    with arrays.scope(name, place):
        if name == "cupy":
            stream = scope = module.cuda.Stream(non_blocking=True)
        else:
            stream = module.cuda.Stream(int(place.partition(":")[2]))
            scope = module.cuda.stream(stream)
        with scope:
            yield
        stream.synchronize()


def check_order(source: End, target: End, device: str | None) -> int:
    """Convert what is still being computed. A missing wait shows as wrong values."""
    expected = numpy.full(LONG, LONG_STEPS, "float32")
    for _ in range(LONG_ROUNDS):
        y = arraybridge.convert(long_work(*source), target[0], device=device)
        same(arrays.read(target[0], y), expected)
        if source[0] in arrays.MUTABLE:
            x = long_work(*source)
            y = arraybridge.convert(x, target[0], device=device, copy=True)
            arrays.fill(source[0], x, -1)
            same(arrays.read(target[0], y), expected)
    return LONG_ROUNDS


def check_side_stream(source: End, target: End, device: str | None) -> int:
    """The same on a stream that nothing else waits for."""
    expected = numpy.full(LONG, LONG_STEPS, "float32")
    for _ in range(LONG_ROUNDS):
        with side_stream(*source):
            y = arraybridge.convert(long_work(*source), target[0], device=device)
            result = arrays.read(target[0], y)
        same(result, expected)
    return LONG_ROUNDS


def checks(places: dict[str, list[str]]) -> Iterator[tuple[str, str, Check]]:
    """The checks for frameworks and their places: group, name and function."""
    ends = [(name, place) for name, found in places.items() for place in found]

    def pairs(sources: list[End]) -> Iterator[tuple[str, End, End, str | None]]:
        for source in sources:
            for target in ends:
                words = f"{' on '.join(source)} to {' on '.join(target)}"
                yield words, source, target, arrays.device_of(target, places)

    for words, source, target, device in pairs(ends):
        yield "values and sharing", words, partial(check_pair, source, target, device)
    for name in places:
        yield "declared functions", name, partial(check_declared, name, ends)
    for name, place in ends:
        yield "out of memory", f"{name} on {place}", partial(check_ladder, name, place)
    yield "threads", "all pairs", partial(check_threads, ends, places)
    for words, source, target, device in pairs(arrays.gpus(places)):
        yield "work in progress", words, partial(check_order, source, target, device)
        if source[0] in ("cupy", "torch"):
            yield "side streams", words, partial(check_side_stream, source, target, device)


def _load(over: list[str], report: Callable[..., None]) -> dict[str, list[str]]:
    """Import the frameworks, and report which are there and where they keep arrays."""
    places = {}
    for name in arrays.import_order([each["name"] for each in arraybridge.frameworks()]):
        start = f"import of {name}"
        if start in over:
            continue
        report(start=start)
        if name not in arrays.KNOWN:
            report(not_tried=name, reason="the selftest cannot make its arrays by itself")
            continue
        try:
            module = importlib.import_module(name)
            found = arrays.places(name)
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == name
            report(not_tried=name, reason="not installed" if missing else str(error))
            if not missing:
                report(name=start, group="import", status="failed", reason=str(error))
        except Exception as error:
            report(not_tried=name, reason=f"no device ({type(error).__name__}: {error})")
        else:
            report(framework=name, version=str(module.__version__), places=found)
            if found:
                places[name] = found
            else:
                report(not_tried=name, reason="no device")
    if "jax" in places:
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    return places


def _run(over: list[str], report: Callable[..., None]) -> None:
    places = _load(over, report)
    # Retries collect garbage. Without the frameworks' own objects that takes milliseconds.
    gc.collect()
    gc.freeze()
    run_each(
        (
            (f"{group}: {words}", {"group": group}, partial(_outcome, check))
            for group, words, check in checks(places)
        ),
        over,
        report,
    )


def _outcome(check: Check) -> dict[str, Any]:
    return {"status": "passed", "conversions": check()}


if __name__ == "__main__":
    # What is warned of, such as sharing immutable memory, is what is tested here.
    warnings.simplefilter("ignore", UserWarning)
    _run(json.loads(sys.argv[1]), reporter())
