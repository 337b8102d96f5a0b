"""Collect records of conversions and add them up, or hand each to a function."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, final

from . import _core  # type: ignore[attr-defined]
from ._blocks import Block

if TYPE_CHECKING:
    from os import PathLike

    from . import Record

__all__ = ["observe", "trace"]

FIELDS = (
    "source", "target", "route", "how", "why", "remedy", "via", "dtype", "shape", "nbytes",
    "device", "ns", "start", "pid", "thread", "file", "line",
)  # fmt: skip
PAIR = FIELDS[:6]


class Report:
    """A table whose rows may have a reason: as text, in colours by Rich, in a notebook."""

    __slots__ = ()
    _head: ClassVar[tuple[str, ...]]

    def _rows(self) -> list[tuple[tuple[str, ...], str | None]]:
        raise NotImplementedError

    def __str__(self) -> str:
        from ._tools.page import reasoned_table

        return reasoned_table(self._head, self._rows())

    def __rich__(self) -> Any:
        from ._tools.terminal import coloured

        return coloured(str(self))

    def _repr_html_(self) -> str:
        from ._tools.page import reasoned_html

        return reasoned_html(self._head, self._rows())


@final
class trace(Report):
    """Collect a record of every conversion in the context: ``with trace() as records``.

    Traces nest: an outer trace also collects the records of an inner one. Other threads, and
    asyncio tasks that were started before, have their own contexts; ``everywhere=True`` collects
    from all of them. Raises ``RuntimeError`` if one object is entered twice.

    As a decorator it collects the records of all calls of a function. The object is then the
    function's attribute ``trace``.

    ``str()`` of the object is a table of totals, which notebooks show as HTML. ``save`` writes a
    file that Perfetto and speedscope show as a timeline.

    >>> import numpy, arraybridge
    >>> collected = arraybridge.trace()
    >>> with collected as records:
    ...     _ = arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    >>> [record.route for record in records]
    ['copy']
    >>> collected.totals()[0]["nbytes"]
    24
    """

    __slots__ = ("_block", "_everywhere", "records", "spans")
    _head = ("conversion", "number", "size", "time", "route")

    def __init__(self, *, everywhere: bool = False) -> None:
        self._everywhere = everywhere
        self._block = _Collector(everywhere)
        self.records: list[Record] = []
        """The records of the last ``with`` block, or of all calls, in order."""
        self.spans: list[Record] = []
        """The calls of declared functions, and their retries when memory ran out, as they ended."""

    def __enter__(self) -> list[Record]:
        self.records, self.spans = self._block.__enter__()
        return self.records

    def __exit__(self, *_exception: Any) -> None:
        self._block.__exit__()

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Return the function with a trace around each call. Calls may overlap."""
        import inspect  # takes long to import

        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("trace() does not decorate generators; use it in the function")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced(*args: Any, **kwargs: Any) -> Any:
                with self._part():
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def traced(*args: Any, **kwargs: Any) -> Any:
                with self._part():
                    return function(*args, **kwargs)

        traced.trace = self  # type: ignore[attr-defined]
        return traced

    @contextlib.contextmanager
    def _part(self) -> Iterator[None]:
        """Collect the records of one call."""
        part = trace(everywhere=self._everywhere)
        try:
            with part:
                yield
        finally:
            self.records.extend(part.records)
            self.spans.extend(part.spans)

    def totals(self, *by: str) -> list[dict[str, Any]]:
        """Add up the records that have equal fields.

        The fields are ``source``, ``target``, ``route``, ``how``, ``why`` and ``remedy`` unless
        others are given, such as ``"file", "line"``. Returns a list of dicts with these keys and
        ``number`` (of records), ``nbytes`` and ``ns``. The longest total time comes first.
        """
        found: dict[tuple[str | None, ...], dict[str, Any]] = {}
        for record in self.records:
            key = {name: getattr(record, name) for name in by or PAIR}
            zero = {**key, "number": 0, "nbytes": 0, "ns": 0}
            total = found.setdefault(tuple(key.values()), zero)
            total["number"] += 1
            total["nbytes"] += record.nbytes
            total["ns"] += record.ns or 0
        return sorted(found.values(), key=lambda total: -total["ns"])

    def to_json(self) -> str:
        """Return a JSON object with ``records``, ``spans`` and ``totals``, each with its fields."""
        import json

        records, spans = (
            [{name: getattr(each, name) for name in FIELDS} for each in found]
            for found in (self.records, self.spans)
        )
        return json.dumps({"records": records, "spans": spans, "totals": self.totals()})

    def to_trace_events(self) -> dict[str, Any]:
        """Return the trace in the trace-event format of Chrome and Perfetto.

        Conversions, calls of declared functions and their retries when memory ran out are complete
        events, nested in each thread. Times are in microseconds since the first of them.
        """
        from ._tools.events import trace_events

        return trace_events(self.records, self.spans)

    def save(self, path: str | PathLike[str]) -> None:
        """Write ``to_trace_events`` to a JSON file, for https://ui.perfetto.dev and speedscope."""
        import json

        text = json.dumps(self.to_trace_events())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _rows(self) -> list[tuple[tuple[str, ...], str | None]]:
        from ._tools.page import summed

        rows: list[tuple[tuple[str, ...], str | None]] = []
        for total in self.totals():
            name, route = "{source} -> {target}", "{route}: {how}"
            row = (*summed(name.format_map(total), [total]), route.format_map(total))
            advice = total["remedy"] and f"{total['why']}; to avoid that, {total['remedy']}"
            rows.append((row, advice or total["why"]))
        return [*rows, ((*summed("total", self.totals()), ""), None)]


@final
class observe:
    """Call a function with the record of each conversion, from now on, in all threads.

    The function is called with a ``Record`` by the thread that converted, in its context, when the
    conversion is done. Nothing is kept. ``close`` ends it, as does the end of a ``with`` block::

        with observe(callback): ...

    Conversions that the function makes are not observed. What it raises goes to
    ``sys.unraisablehook``, and the conversion is as good as without it. While nobody observes or
    traces, conversions cost what they cost without this.

    Parameters
    ----------
    callback : callable
        The function, of one ``Record``.
    spans : callable, optional
        A function of the ``Record`` of a call of a declared function, or of a retry when memory ran
        out, as it ends.

    Raises
    ------
    TypeError
        If one of them cannot be called.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> with arraybridge.observe(lambda record: print(record.route, record.nbytes)):
    ...     _ = arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    copy 24
    """

    __slots__ = ("_block", "_lock")

    def __init__(
        self,
        callback: Callable[[Record], object],
        *,
        spans: Callable[[Record], object] | None = None,
    ) -> None:
        for name, value in (("callback", callback), ("spans", spans or callback)):
            if not callable(value):
                kind = type(value).__name__
                raise TypeError(f"observe: {name} must be a function of a record, not {kind}")
        self._lock = threading.Lock()
        # An empty queue forgets what is appended.
        calls: Any = _Receiver(spans) if spans else deque(maxlen=0)
        self._block: _Collector | None = _Collector(True, (_Receiver(callback), calls))
        self._block.__enter__()

    def close(self) -> None:
        """Stop. Another call of it does nothing."""
        with self._lock:
            block, self._block = self._block, None
        if block is not None:
            block.__exit__()

    def __enter__(self) -> observe:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Collector(Block):
    """Has records and spans appended to two lists, or to two objects like lists.

    What these raise is seen by nobody.
    """

    __slots__ = ("_everywhere", "_into")
    _variable = _core._TRACES

    def __init__(self, everywhere: bool, into: tuple[Any, Any] | None = None) -> None:
        super().__init__()
        self._everywhere, self._into = everywhere, into

    def __enter__(self) -> tuple[Any, Any]:
        lists = self._into or ([], [])
        if self._everywhere:
            opened = (lists,)
            if self._opened.setdefault("with", opened) is not opened:
                self._refuse("arraybridge.trace")
            _core._EVERYWHERE[id(lists)] = lists
        else:
            self._open((*(_core._TRACES.get() or ()), lists))
        _core._count_blocks(1, 0)
        return lists

    def __exit__(self, *_exception: object) -> None:
        if not self._everywhere:
            super().__exit__()
        elif opened := self._opened.pop("with", None):
            del _core._EVERYWHERE[id(opened[0])]
            self._closed()

    def _closed(self) -> None:
        _core._count_blocks(-1, 0)


class _Receiver:
    """Takes records as a list does, and hands them to a function."""

    # Whether the thread is in a callback, whose own conversions are not observed.
    _inside = threading.local()

    def __init__(self, callback: Callable[[Record], object]) -> None:
        self.callback = callback

    def append(self, record: Record) -> None:
        if getattr(self._inside, "yes", False):
            return
        self._inside.yes = True
        try:
            self.callback(record)
        except BaseException as error:
            _report(error, self.callback)
        finally:
            self._inside.yes = False


def _report(error: BaseException, callback: Callable[..., object]) -> None:
    """Hand an error to ``sys.unraisablehook``, whose default takes none from Python."""
    text = "Exception ignored in a function that observes conversions"
    if sys.unraisablehook is sys.__unraisablehook__:
        print(f"{text}: {callback!r}", file=sys.stderr)
        import traceback

        traceback.print_exception(error)
        return
    report: Any = SimpleNamespace(exc_type=type(error), exc_value=error, object=callback)
    report.exc_traceback, report.err_msg = error.__traceback__, text
    sys.unraisablehook(report)


trace.__module__ = observe.__module__ = "arraybridge"
