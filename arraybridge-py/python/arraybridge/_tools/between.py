"""Convert between one framework and another, in a process of their own. ``check`` starts it.

Arrays are made and read by the frameworks' own functions (``tables``). Each case is one direction
and one dtype, or one thing that has to hold for a pair. A mistake names a key of the checked table.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import arraybridge
import numpy

from .child import reporter
from .claims import error_of, key_of, missing, run, set_up
from .tables import Lie, Table, bits, carry, same, sample, tables, words

__all__ = ["cases"]

# A layout: its name, the shape to begin with, what is done to the array, and the key for it.
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

    def __init__(self, checked: Table, source: Table, target: Table) -> None:
        self.checked, self.source, self.target = checked, source, target

    def key(self, layout: str, limit: str) -> str:
        """Return the key that is probably wrong if only this layout fails."""
        if limit in ("ndim", "empty"):
            return limit
        if self.target is self.checked:
            has_import = self.checked.get("import") is not None
            return f"import.{limit}" if has_import else "from_numpy"
        return "export.op" if self.checked.exports() else "to_numpy"

    def takes(self, table: Table, native: numpy.ndarray) -> bool:
        """Return whether arrays of a framework can have the dtype and the shape."""
        least, most = table.get("ndim", [0, 64])
        dtype = str(native.dtype)
        if dtype not in table.dtypes or dtype in missing(table):
            return False
        return least <= native.ndim <= most and (native.size > 0 or table.get("empty", True))

    def arrays(self, dtype: str) -> Iterator[tuple[str, str, Any, numpy.ndarray]]:
        """Arrays of the source in every layout that it can have."""
        for layout, shape, change, limit in LAYOUTS:
            native = sample(dtype, shape)
            if not self.takes(self.source, native):
                continue
            expected = change(native)
            if self.takes(self.checked, native):
                carry(self.checked, native)
            try:
                x = change(self.source.make(native))
                if self.source.name != "numpy":
                    same(self.source.read(x, dtype), expected, "", "")
            except Exception as error:
                if limit in ("strides", "align"):  # not every framework has views
                    continue
                raise Lie(self.key(layout, limit), f"{layout}: {words(error)}") from error
            yield layout, limit, x, expected
        if self.source.name == "numpy" and self.takes(self.target, sample(dtype, (4, 5))):
            yield from self.odd(dtype)

    def odd(self, dtype: str) -> Iterator[tuple[str, str, Any, numpy.ndarray]]:
        """Return further kinds of NumPy arrays."""
        native = sample(dtype, (4, 5))
        raw = numpy.zeros(native.nbytes + 1, "uint8")
        unaligned = raw[1:].view(native.dtype).reshape(native.shape)
        unaligned[...] = native
        yield "unaligned", "align", unaligned, native
        frozen = native.copy()
        frozen.flags.writeable = False
        yield "read-only", "read_only", frozen, native
        yield (
            "broadcast",
            "strides",
            numpy.broadcast_to(native[0], native.shape),
            (numpy.array(numpy.broadcast_to(native[0], native.shape))),
        )

    def convert(self, x: Any, **options: Any) -> Any:
        return arraybridge.convert(x, self.target.name, **options)

    def check_dtype(self, dtype: str) -> str | None:
        """Values, dtype, class, sharing and the record of every layout, with and without copies."""
        made = 0
        for layout, limit, x, expected in self.arrays(dtype):
            key = self.key(layout, limit)
            for copy in (None, True, False):
                label = f"{layout}, copy={copy}"
                try:
                    self.check_array(x, expected, copy, key, label)
                except Lie:
                    raise
                except Exception as error:
                    raise Lie(key_of(error, key), f"{label}: {words(error)}") from error
                made += 1
        return f"{made} conversions"

    def check_array(
        self, x: Any, expected: numpy.ndarray, copy: bool | None, key: str, label: str
    ) -> None:
        dtype = str(expected.dtype)
        fits = self.takes(self.target, expected)
        try:
            planned = arraybridge.explain(x, self.target.name, copy=copy)
            with arraybridge.trace() as records:
                y = self.convert(x, copy=copy)
        except arraybridge.CopyRequiredError:
            if copy is False:
                return
            raise
        except arraybridge.MemoryConversionError:
            if fits:
                raise
            return
        if not fits:
            raise Lie("dtypes", f"{label}: the target has no such array, and it was converted")
        record = records[-1]
        if arraybridge.detect_memory_type(y) != self.target.name:
            raise Lie("classes", f"{label}: the result is a {type(y)}")
        same(self.target.read(y, dtype), expected, key, label)
        same(self.source.read(x, dtype), expected, key, f"{label}: the source afterwards")
        if record.route != planned.route:
            raise Lie(
                key, f"{label}: explain predicts {planned.route}, but the route is {record.route}"
            )
        self.check_sharing(x, y, expected, record.route in ("keep", "share"), label)

    def check_sharing(
        self, x: Any, y: Any, expected: numpy.ndarray, shared: bool, label: str
    ) -> None:
        ends = self.source.address(x), self.target.address(y)
        if None in ends or not expected.size:
            return
        if (ends[0] == ends[1]) != shared:
            key = "import.shares" if self.target is self.checked else "to_numpy"
            did = "shared" if ends[0] == ends[1] else "copied"
            says = "sharing" if shared else "a copy"
            raise Lie(key, f"{label}: the record has {says}, but the memory was {did}")

    def some(self) -> tuple[Any, numpy.ndarray, str]:
        """An array that both frameworks can have."""
        both = [dtype for dtype in self.source.dtypes if dtype in self.target.dtypes]
        dtype = self.checked.plain_dtype() if self.checked.plain_dtype() in both else both[0]
        least = max(self.source.get("ndim", [0, 64])[0], self.target.get("ndim", [0, 64])[0], 1)
        native = sample(dtype, (*(1,) * (least - 1), 5000))
        carry(self.checked, native)
        return self.source.make(native), native, dtype

    def check_lifetime(self) -> str | None:
        """The source may be deleted before the result, and the result before the source."""
        x, native, dtype = self.some()
        y = self.convert(x)
        del x
        gc.collect()
        churn = [self.source.make(numpy.zeros_like(native)) for _ in range(20)]
        same(self.target.read(y, dtype), native, "export", "after the source was deleted")
        del churn
        x, native, dtype = self.some()
        before = sys.getrefcount(x)
        for _ in range(5):
            y = self.convert(x)
        del y
        gc.collect()
        churn = [self.target.make(numpy.zeros_like(native)) for _ in range(20)]
        same(self.source.read(x, dtype), native, "export", "after the result was deleted")
        del churn
        left = sys.getrefcount(x) - before
        # What borrowed the memory may have a reference for as long as it lives.
        if left > 1:
            raise Lie("export", f"{left} references to the source are left")
        return None

    def check_thread(self) -> str | None:
        """A result may be used in another thread than the one that made it."""
        x, native, dtype = self.some()
        found: list[Any] = []

        def read(y: Any) -> None:
            try:
                found.append(self.target.read(y, dtype))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=read, args=(self.convert(x),))
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise Lie("ready", f"in another thread: {words(found[0])}")
        same(found[0], native, "ready", "in another thread")
        return None

    def check_declared(self) -> str | None:
        """A declared function gets the checked framework's arrays and gives back the caller's."""
        x, native, dtype = self.some()
        seen: list[str] = []

        @getattr(arraybridge, self.target.name)(output_type="input")
        def identity(image: Any) -> Any:
            seen.append(arraybridge.detect_memory_type(image))
            return image

        y = identity(x)
        if seen != [self.target.name]:
            raise Lie("classes", f"the function was called with {seen}")
        if arraybridge.detect_memory_type(y) != self.source.name:
            raise Lie("classes", f"the result is a {type(y)}")
        same(self.source.read(y, dtype), native, "export.op", "the result")
        return None


def check_slices(table: Table, other: Table, dtype: str) -> str | None:
    """Slices of the other framework as a stack of the checked one, and a stack as slices."""
    native = sample(dtype, (3, 4, 5))
    carry(table, native)
    stack = arraybridge.stack_slices([other.make(each) for each in native], table.name, 0)
    same(table.read(stack, dtype), native, "array.stack", "stack_slices")
    parts = arraybridge.unstack_slices(other.make(native), table.name, 0)
    for got, expected in zip(parts, native, strict=True):
        if arraybridge.detect_memory_type(got) != table.name:
            raise Lie("slices", f"unstack_slices gives a {type(got)}")
        same(table.read(got, dtype), expected, "slices", "unstack_slices")
    return None


def check_cast(table: Table, other: Table, dtype: str, to: str) -> str | None:
    """A cast into the checked framework and within it, compared with NumPy's."""
    values = numpy.array([[0.0, 1.0, 2.5, 3.5, 100.0, 200.0]] * 2).astype(dtype)
    if min(each.get("ndim", [0, 64])[1] for each in (table, other)) < 2:
        values = values[0]
    carry(table, values)
    expected = arraybridge.convert(values, "numpy", dtype=to)
    plain = numpy.rint(values).astype(to) if dtype.startswith("float") else values.astype(to)
    if bits(expected) != bits(plain):
        raise Lie("", f"NumPy casts {dtype} to {to} differently")
    got = arraybridge.convert(other.make(values), table.name, dtype=to)
    same(table.read(got, to), expected, "array.astype", f"{dtype} to {to}")
    got = arraybridge.convert(table.make(values), table.name, dtype=to)
    same(table.read(got, to), expected, "array.astype", f"{dtype} to {to}, within")
    return None


def check_ladder(table: Table, rule: dict[str, Any]) -> str | None:
    """An error of the rule's class in a declared function is answered with a retry."""
    error = error_of(rule)
    if isinstance(error, str):
        return error
    calls = []

    @getattr(arraybridge, table.name)(on_oom=("clear",))
    def function(image: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return image

    native = sample(table.plain_dtype(), table.plain_shape())
    with contextlib.suppress(type(error)):
        function(table.make(native))
    if len(calls) != 2:
        raise Lie("oom", f"{rule['class']} was raised, and there was no retry")
    return None


def cases(checked: Table, other: Table) -> Iterator[tuple[str, str, Callable[[], str | None]]]:
    """Return the checks of a pair: a name, the key that is probably wrong, and the check."""
    directions = [Pair(checked, other, checked)]
    if other.name != checked.name:
        directions.append(Pair(checked, checked, other))
    for pair in directions:
        arrow = f"{pair.source.name} -> {pair.target.name}"
        for dtype in pair.source.dtypes:
            if dtype not in missing(pair.source) and has(pair.source, dtype):
                yield f"{arrow}: {dtype}", "dtypes", functools.partial(pair.check_dtype, dtype)
        yield f"{arrow}: lifetime", "export", pair.check_lifetime
        yield f"{arrow}: another thread", "ready", pair.check_thread
        yield f"{arrow}: declared function", "classes", pair.check_declared
    for dtype in ("uint8", "uint16", "int32", "float32"):
        if all(dtype in table.dtypes for table in (checked, other)) and three_axes(checked, other):
            run = functools.partial(check_slices, checked, other, dtype)
            yield f"{other.name}: slices of {dtype}", "array.stack", run
    for dtype, to in (("float32", "uint8"), ("float32", "int32"), ("uint8", "float32")):
        if all(each in table.dtypes for table in (checked, other) for each in (dtype, to)):
            run = functools.partial(check_cast, checked, other, dtype, to)
            yield f"{other.name}: {dtype} to {to}", "array.astype", run
    if other.name == checked.name:
        for index, rule in enumerate(checked.get("oom", [])):
            run = functools.partial(check_ladder, checked, rule)
            yield (
                f"retry after {rule['class']} {rule.get('text', '')}".strip(),
                f"oom[{index}]",
                run,
            )


def has(table: Table, dtype: str) -> bool:
    """Return whether the installed version has the dtype. ``claims`` reports what is missing."""
    try:
        table.dtype(dtype)
    except Exception:
        return False
    return True


def three_axes(*both: Table) -> bool:
    return all(t.get("ndim", [0, 64])[0] <= 2 and t.get("ndim", [0, 64])[1] >= 3 for t in both)


def _loaded(table: Table) -> Table:
    # arraybridge imports it, with what protects one framework from the other.
    arraybridge.convert(sample(table.plain_dtype(), table.plain_shape()), table.name)
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
    run(cases(*both), json.loads(over), report)
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _main(*sys.argv[1:])
