"""Convert between one framework and another, in a process of their own. ``check`` starts it.

Arrays are made and read by the frameworks' own functions (``tables``). Each case is one direction
and one dtype, or one thing that has to hold for a pair. A mistake names a key of the checked table.
"""

from __future__ import annotations

import gc
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
from ..child import reporter
from .claims import Case, key_of, run, set_up
from .tables import STANDARD, Lie, Table, aligned, bits, carry, same, sample, tables, words

__all__ = ["cases"]

# A layout of arrays: its name, the key for it, a function that makes one, and the values.
Layout = tuple[str, str, Callable[[], Any], numpy.ndarray]
# Its name, the shape to begin with, what is done to the array, and the key for it.
LAYOUTS: tuple[tuple[str, tuple[int, ...], Callable[[Any], Any], str], ...] = (
    ("contiguous", (4, 6), lambda x: x, "op"),
    ("one axis", (13,), lambda x: x, "op"),
    ("three axes", (2, 3, 4), lambda x: x, "op"),
    ("scalar", (), lambda x: x, "ndim"),
    ("empty", (0, 3), lambda x: x, "empty"),
    ("transposed", (4, 6), lambda x: x.T, "strides"),
    ("sliced", (8, 12), lambda x: x[::2, 1::3], "strides"),
    ("reversed", (4, 6), lambda x: x[::-1, ::-1], "strides"),
    ("from the second row", (5, 6), lambda x: x[1:], "align"),
)


class Pair:
    """A direction: conversions from one framework to another, one of which is checked."""

    def __init__(
        self, checked: Table, source: Table, target: Table, device: str | None = None
    ) -> None:
        self.checked, self.source, self.target, self.device = checked, source, target, device

    def key(self, limit: str) -> str:
        """Return the key that is probably wrong if only the layouts of a limit fail."""
        if limit in ("ndim", "empty"):
            return limit
        if self.target is self.checked:
            has_import = self.checked.get("import") is not None
            return f"import.{limit}" if has_import else "from_numpy"
        return "export.op" if self.checked.exports() else "to_numpy"

    def layouts(self, dtype: str) -> Iterator[Layout]:
        """The layouts of arrays that the source can have, and functions that make new ones."""
        for layout, shape, change, limit in LAYOUTS:
            native = sample(dtype, shape)
            if not self.source.takes(native):
                continue
            if self.checked.takes(native):
                carry(self.checked, native)

            def make(native: numpy.ndarray = native, change: Any = change) -> Any:
                return change(self.source.make(native))

            try:
                if self.source.name != "numpy":
                    self.source.compare(make(), change(native))
            except Exception as error:
                if limit in ("strides", "align"):  # not every framework has views
                    continue
                raise Lie(self.key(limit), f"{layout}: {words(error)}") from error
            yield layout, limit, make, change(native)
        native = sample(dtype, (4, 5))
        if self.source.name == "numpy" and self.target.takes(native):
            rows = numpy.broadcast_to(native[0], native.shape)
            yield "unaligned", "align", lambda: aligned(native, 1), native
            yield "read-only", "read_only", lambda: frozen(native), native
            yield "broadcast", "strides", lambda: rows, rows.copy()

    def convert(self, x: Any, **options: Any) -> Any:
        return arraybridge.convert(x, self.target.name, **options)

    def check_dtype(self, dtype: str) -> str:
        return f"{self.convert_all(dtype)} conversions"

    def convert_all(self, dtype: str) -> int:
        """Values, dtype, class, sharing and the record of every layout, with and without copies."""
        made = 0
        for layout, limit, make, expected in self.layouts(dtype):
            for copy in (None, True, False):
                label = f"{layout}, copy={copy}"
                try:
                    self.check_array(make(), expected, copy, self.key(limit), label)
                except Lie:
                    raise
                except Exception as error:
                    raise Lie(key_of(error, self.key(limit)), f"{label}: {words(error)}") from error
                made += 1
        return made

    def check_array(
        self, x: Any, expected: numpy.ndarray, copy: bool | None, key: str, label: str
    ) -> None:
        fits = self.target.takes(expected)
        options = {"copy": copy, **({"device": self.device} if self.device else {})}
        try:
            planned = arraybridge.explain(x, self.target.name, **options)
            with arraybridge.trace() as records:
                y = self.convert(x, **options)
        except arraybridge.CopyRequiredError:
            if copy is False:
                return
            raise
        except arraybridge.MemoryConversionError as error:
            is_elsewhere = isinstance(error, arraybridge.DeviceUnavailableError)
            if fits and not (is_elsewhere and self.device and not self.stays(expected)):
                raise
            return
        if not fits:
            raise Lie("dtypes", f"{label}: the target has no such array, and it was converted")
        record = records[-1]
        if arraybridge.detect_memory_type(y) != self.target.name:
            raise Lie("classes", f"{label}: the result is a {type(y)}")
        if self.target.place and (copy or self.source.name != self.target.name):
            place = arraybridge.explain(y, self.target.name).device
            if place != self.target.place:
                raise Lie("device.of", f"{label}: the result is on {place}")
        self.target.compare(y, expected, key, label)
        self.source.compare(x, expected, key, f"{label}: the source afterwards")
        if record.route != planned.route:
            predicted = f"explain predicts {planned.route}"
            raise Lie(key, f"{label}: {predicted}, but the route is {record.route}")
        if expected.size:
            self.check_sharing(x, y, expected, record.route in ("keep", "share"), label)

    def stays(self, native: numpy.ndarray) -> bool:
        """Return whether the target keeps such an array where it is asked for."""
        return arrays.stays(self.target.name, native, self.target.place or "host")

    def check_sharing(
        self, x: Any, y: Any, expected: numpy.ndarray, shared: bool, label: str
    ) -> None:
        """Compare the addresses. Then write to the source, and see whether the result follows."""
        key = "import.shares" if self.target is self.checked else "to_numpy"
        says = "sharing" if shared else "a copy"
        ends = self.source.address(x), self.target.address(y)
        if None not in ends and (ends[0] == ends[1]) != shared:
            did = "shared" if ends[0] == ends[1] else "copied"
            raise Lie(key, f"{label}: the record has {says}, but the memory was {did}")
        source, target = self.source.name, self.target.name
        if target not in arrays.KNOWN or str(expected.dtype) not in STANDARD:
            return
        other = not expected.flat[0] if expected.dtype == bool else 77
        if arrays.write(source, x, other):
            arrays.finish(source, x)
            follows = bits(arrays.read_again(target, y)) != bits(expected)
            if follows != shared:
                did = "changed the result" if follows else "did not change the result"
                raise Lie(key, f"{label}: the record has {says}, and a write to the source {did}")

    def some(self) -> tuple[Any, numpy.ndarray]:
        """An array that both frameworks can have."""
        both = [dtype for dtype in self.source.dtypes if dtype in self.target.dtypes]
        dtype = self.checked.plain_dtype() if self.checked.plain_dtype() in both else both[0]
        shapes = (end.flat_shape(5000) for end in (self.source, self.target))
        native = sample(dtype, max(shapes, key=len))
        carry(self.checked, native)
        return self.source.make(native), native

    def check_lifetime(self) -> None:
        """The source may be deleted before the result, and the result before the source."""
        x, native = self.some()
        y = self.convert(x)
        del x
        gc.collect()
        churn = [self.source.make(numpy.zeros_like(native)) for _ in range(20)]
        self.target.compare(y, native, "export", "after the source was deleted")
        del churn
        x, native = self.some()
        before = sys.getrefcount(x)
        for _ in range(5):
            y = self.convert(x)
        del y
        gc.collect()
        churn = [self.target.make(numpy.zeros_like(native)) for _ in range(20)]
        self.source.compare(x, native, "export", "after the result was deleted")
        del churn
        left = sys.getrefcount(x) - before
        # What borrowed the memory may have a reference for as long as it lives.
        if left > 1:
            raise Lie("export", f"{left} references to the source are left")

    def check_thread(self) -> None:
        """A result may be used in another thread than the one that made it."""
        x, native = self.some()
        found: list[Any] = []

        def read(y: Any) -> None:
            try:
                found.append(self.target.read(y, str(native.dtype)))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=read, args=(self.convert(x),))
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise Lie("ready", f"in another thread: {words(found[0])}")
        same(found[0], native, "ready", "in another thread")

    def check_declared(self) -> None:
        """A declared function gets the checked framework's arrays and gives back the caller's."""
        x, native = self.some()
        # Other values than those of the argument, which would be right if the result was lost.
        expected = native[..., ::-1].copy()
        answer = self.target.make(expected)
        seen: list[str] = []

        @getattr(arraybridge, self.target.name)(output_type="input")
        def other(image: Any) -> Any:
            seen.append(arraybridge.detect_memory_type(image))
            return answer

        y = other(x)
        if seen != [self.target.name]:
            raise Lie("classes", f"the function was called with {seen}")
        if arraybridge.detect_memory_type(y) != self.source.name:
            raise Lie("classes", f"the result is a {type(y)}")
        self.source.compare(y, expected, "export.op", "the result")


def frozen(native: numpy.ndarray) -> numpy.ndarray:
    """A copy that cannot be written to."""
    found = native.copy()
    found.flags.writeable = False
    return found


def check_slices(table: Table, other: Table, dtype: str) -> None:
    """Slices of the other framework as a stack of the checked one, and a stack as slices."""
    native = sample(dtype, (3, 4, 5))
    carry(table, native)
    stack = arraybridge.stack_slices([other.make(each) for each in native], table.name, 0)
    table.compare(stack, native, "array.stack", "stack_slices")
    parts = arraybridge.unstack_slices(other.make(native), table.name, 0)
    for got, expected in zip(parts, native, strict=True):
        if arraybridge.detect_memory_type(got) != table.name:
            raise Lie("slices", f"unstack_slices gives a {type(got)}")
        table.compare(got, expected, "slices", "unstack_slices")


def check_cast(table: Table, other: Table, dtype: str, to: str) -> str | None:
    """A cast into the checked framework and within it, compared with NumPy's."""
    values = numpy.array([[0.0, 1.0, 2.5, 3.5, 100.0, 200.0]] * 2).astype(dtype)
    if min(table.most_ndim, other.most_ndim) < 2:
        values = values[0]
    for each in (table, other, table):
        if (fitted := each.fitted(values)) is None:
            return f"{each.name} has no arrays of the shape {values.shape}"
        values = fitted
    carry(table, values)
    expected = arraybridge.convert(values, "numpy", dtype=to)
    plain = numpy.rint(values).astype(to) if dtype.startswith("float") else values.astype(to)
    if bits(expected) != bits(plain):
        raise Lie("", f"NumPy casts {dtype} to {to} differently")
    for source, within in ((other, ""), (table, ", within")):
        got = arraybridge.convert(source.make(values), table.name, dtype=to)
        table.compare(got, expected, "array.astype", f"{dtype} to {to}{within}")
    return None


def cases(checked: Table, other: Table) -> Iterator[Case]:
    """Return the checks of a pair: a name, the key that is probably wrong, and the check."""
    directions = [Pair(checked, other, checked)]
    if other.name != checked.name:
        directions.append(Pair(checked, checked, other))
    for pair in directions:
        arrow = f"{pair.source.name} -> {pair.target.name}"
        for dtype in pair.source.dtypes:
            # `claims` reports what the installed version lacks.
            if dtype not in pair.source.missing() and dtype in pair.source.dtype_objects():
                yield f"{arrow}: {dtype}", "dtypes", partial(pair.check_dtype, dtype)
        yield f"{arrow}: lifetime", "export", pair.check_lifetime
        yield f"{arrow}: another thread", "ready", pair.check_thread
        yield f"{arrow}: declared function", "classes", pair.check_declared
    both = (checked, other)
    stacks = all(table.least_ndim <= 2 and table.most_ndim >= 3 for table in both)
    for dtype in ("uint8", "uint16", "int32", "float32"):
        if stacks and all(dtype in table.dtypes for table in both):
            check = partial(check_slices, checked, other, dtype)
            yield f"{other.name}: slices of {dtype}", "array.stack", check
    for dtype, to in (("float32", "uint8"), ("float32", "int32"), ("uint8", "float32")):
        if all({dtype, to} <= {*table.dtypes} for table in both):
            cast = partial(check_cast, checked, other, dtype, to)
            yield f"{other.name}: {dtype} to {to}", "array.astype", cast


def _loaded(table: Table) -> Table:
    # arraybridge imports it, with what protects one framework from the other.
    arraybridge.convert(table.sample(), table.name)
    table.module  # noqa: B018
    set_up(table)
    return table


def _main(name: str, with_name: str, over: str) -> None:
    report, known, both = reporter(), tables(), []
    for table in (known[name], known[with_name]):
        try:
            both.append(_loaded(table))
        except Exception as error:
            key = key_of(error, table.way_in(table.plain_dtype()) if table.name == name else "")
            found = {"status": "failed", "reason": words(error), "seconds": 0.0}
            return report(name="start of the process", key=key, **found)
    run(both[0], cases(*both), json.loads(over), report)
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _main(*sys.argv[1:])
