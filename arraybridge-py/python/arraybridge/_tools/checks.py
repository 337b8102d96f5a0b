"""The checks of ``selftest``, in a process of their own.

Arrays are made and read by their frameworks (``arrays``). A check raises ``AssertionError`` or any
other exception if it fails, and returns how many conversions it made.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import arraybridge
import numpy

from . import arrays
from .child import reporter

__all__ = ["checks"]

# An end of a conversion: a framework, and where its array is.
End = tuple[str, str]
Check = Callable[[], int]

DTYPES = (
    "bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64",
)  # fmt: skip
# Every framework has these, so that a refusal is a failure.
COMMON = ("uint8", "uint16", "int32", "float32")
IMAGE = numpy.arange(3 * 16 * 16, dtype="float32").reshape(3, 16, 16)
# Large enough that a device is still at work when the last step has been queued.
LONG = (4096, 4096)
LONG_STEPS = 100
LONG_ROUNDS = 3
THREADS = 4


def device_of(end: End, places: dict[str, list[str]]) -> str | None:
    """The ``device`` to ask for; None where a framework has only one place."""
    name, place = end
    return place if len(places[name]) > 1 else None


def values(dtype: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """Values that are all different as far as the dtype goes, and none of which is 77."""
    count = int(numpy.prod(shape))
    flat = numpy.arange(count) % 70
    return (flat % 2 if dtype == "bool" else flat).astype(dtype).reshape(shape)


# A layout: its name, the shape to begin with, and what is done to the array then.
LAYOUTS: tuple[tuple[str, tuple[int, ...], Callable[[Any], Any]], ...] = (
    ("contiguous", (4, 6, 8), lambda x: x),
    ("one axis", (13,), lambda x: x),
    ("scalar", (), lambda x: x),
    ("empty", (0, 3), lambda x: x),
    ("transposed", (4, 6, 8), lambda x: x.swapaxes(0, 2)),
    ("strided", (4, 6, 8), lambda x: x[::2, 1:, ::3]),
)


def layouts(name: str) -> Iterator[tuple[str, tuple[int, ...], Callable[[Any], Any]]]:
    """The layouts that arrays of the framework can have."""
    for layout, shape, change in LAYOUTS:
        views = name in ("numpy", "cupy", "torch")
        small = name == "pyclesperanto" and layout in ("scalar", "empty")
        if not small and (views or layout not in ("transposed", "strided")):
            yield layout, shape, change


def has(name: str, dtype: str) -> bool:
    """Return whether the framework's own functions keep the dtype."""
    return name != "pyclesperanto" or dtype in COMMON


def check_pair(source: End, target: End, device: str | None) -> int:
    """Convert every dtype and layout, with and without sharing."""
    made = 0
    for dtype in filter(functools.partial(has, source[0]), DTYPES):
        for layout, shape, change in layouts(source[0]):
            native = values(dtype, shape)
            for copy in (None, True):
                x = change(arrays.make(source[0], native, source[1]))
                try:
                    check_array(x, change(native), source, target, device, copy)
                except arraybridge.DeviceUnavailableError:
                    if arrays.stays(target[0], native, target[1]):
                        raise
                except arraybridge.MemoryConversionError:
                    if refusal_is_wrong(target[0], dtype, layout):
                        raise
                except AssertionError as error:
                    words = f"{dtype}, {layout}, copy={copy}: {error}"
                    raise AssertionError(words) from error
                made += 1
    return made


def refusal_is_wrong(target: str, dtype: str, layout: str) -> bool:
    """Return whether arrays of the target can have the dtype and the layout."""
    return has(target, dtype) and not (target == "pyclesperanto" and layout in ("scalar", "empty"))


def check_array(
    x: Any, native: numpy.ndarray, source: End, target: End, device: str | None, copy: bool | None
) -> None:
    """Convert one array. Then write to the source, and see whether the result follows."""
    with arraybridge.trace() as records:
        y = arraybridge.convert(x, target[0], device=device, copy=copy)
    assert arraybridge.detect_memory_type(y) == target[0], f"the result is a {type(y)}"
    if target[0] != source[0] or copy:
        place = arraybridge.explain(y, target[0]).device
        assert place == target[1], f"the result is on {place}"
    same(arrays.read(target[0], y), native)
    if not native.size:
        return
    route = records[-1].route
    shared = route in ("keep", "share")
    assert not (copy and shared), f"copy=True took the route {route}"
    first = (0,) * native.ndim
    before = native[first]
    if arrays.write(source[0], x):
        arrays.finish(source[0], x)
        follows = arrays.read_again(target[0], y)[first] != before
        assert follows == shared, f"the route is {route}, and a write to the source " + (
            "changed the result" if follows else "did not change the result"
        )
        return
    ends = arrays.address(source[0], x), arrays.address(target[0], y)
    if None not in ends:
        assert (ends[0] == ends[1]) == shared, f"the route is {route}, the addresses are {ends}"


def same(got: numpy.ndarray, expected: numpy.ndarray) -> None:
    """Raise if two arrays differ in dtype, shape or a value."""
    assert got.dtype == expected.dtype, f"the dtype is {got.dtype} instead of {expected.dtype}"
    assert got.shape == expected.shape, f"the shape is {got.shape} instead of {expected.shape}"
    wrong = numpy.count_nonzero(got != expected)
    assert not wrong, f"{wrong} of {expected.size} values are wrong"


def check_declared(name: str, sources: list[End]) -> int:
    """Call a declared function with the arrays of every framework."""
    seen = []

    def double(image: Any) -> Any:
        seen.append(arraybridge.detect_memory_type(image))
        return image + image

    declared = getattr(arraybridge, name)(output_type="input")(double)
    for source, place in sources:
        result = declared(arrays.make(source, IMAGE, place))
        assert seen.pop() == name, f"the function did not receive {name} arrays"
        kind = arraybridge.detect_memory_type(result)
        assert kind == source, f"{source} arrays became {kind} arrays"
        same(arrays.read(source, result), IMAGE * 2)
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
                    device = device_of(target, places)
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


def gpus(places: dict[str, list[str]]) -> list[End]:
    """The ends on a GPU. pyclesperanto's devices may be anything."""
    return [
        (name, place)
        for name, found in places.items()
        for place in found
        if place != "host" and name != "pyclesperanto"
    ]


def checks(places: dict[str, list[str]]) -> Iterator[tuple[str, str, Check]]:
    """The checks for frameworks and their places: group, name and function."""
    ends = [(name, place) for name, found in places.items() for place in found]
    for source in ends:
        for target in ends:
            device = device_of(target, places)
            words = f"{' on '.join(source)} to {' on '.join(target)}"
            yield "values and sharing", words, functools.partial(check_pair, source, target, device)
    for name in places:
        yield "declared functions", name, functools.partial(check_declared, name, ends)
    for name, place in ends:
        run = functools.partial(check_ladder, name, place)
        yield "out of memory", f"{name} on {place}", run
    yield "threads", "all pairs", functools.partial(check_threads, ends, places)
    for source in gpus(places):
        for target in ends:
            device = device_of(target, places)
            words = f"{' on '.join(source)} to {' on '.join(target)}"
            run = functools.partial(check_order, source, target, device)
            yield "work in progress", words, run
            if source[0] in ("cupy", "torch"):
                run = functools.partial(check_side_stream, source, target, device)
                yield "side streams", words, run


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
    for group, words, check in checks(places):
        name = f"{group}: {words}"
        if name in over:
            continue
        report(start=name)
        start = time.perf_counter()
        found: dict[str, Any] = {"status": "passed"}
        try:
            found["conversions"] = check()
        except Exception as error:
            found = {
                "status": "failed",
                "reason": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(),
            }
        seconds = round(time.perf_counter() - start, 3)
        report(name=name, group=group, seconds=seconds, **found)


if __name__ == "__main__":
    # What is warned of, such as sharing immutable memory, is what is tested here.
    warnings.simplefilter("ignore", UserWarning)
    _run(json.loads(sys.argv[1]), reporter())
