"""Collect records of conversions, and add them up."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from . import _core  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from os import PathLike

    from . import Record

__all__ = ["trace"]

FIELDS = (
    "source", "target", "route", "how", "why", "remedy", "via", "dtype", "shape", "nbytes",
    "device", "ns", "start", "pid", "thread", "file", "line",
)  # fmt: skip
PAIR = FIELDS[:6]
HEAD = ("conversion", "number", "size", "time", "route")


@final
class trace:
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

    def __init__(self, *, everywhere: bool = False) -> None:
        self._everywhere = everywhere
        self._block = _core.trace(everywhere)
        self.records: list[Record] = []
        """The records of the last ``with`` block, or of all calls, in order."""
        self.spans: list[Record] = []
        """The calls of declared functions, and their retries when memory ran out, as they ended."""

    def __enter__(self) -> list[Record]:
        self.records, self.spans = self._block.__enter__()
        return self.records

    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None, /) -> None:
        self._block.__exit__(kind, error, traceback)

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Return the function with a trace around each call. Calls may overlap."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("trace() does not decorate generators; use it in the function")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced(*args: Any, **kwargs: Any) -> Any:
                with _Part(self):
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def traced(*args: Any, **kwargs: Any) -> Any:
                with _Part(self):
                    return function(*args, **kwargs)

        traced.trace = self  # type: ignore[attr-defined]
        return traced

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

    def __str__(self) -> str:
        from ._tools.page import reasoned_table

        return reasoned_table(HEAD, self._rows())

    def __rich__(self) -> Any:
        from ._tools.terminal import coloured

        return coloured(str(self))

    def _repr_html_(self) -> str:
        from html import escape

        table = ["".join(f"<th>{name}</th>" for name in (*HEAD, "why"))]
        for row, why in self._rows():
            table.append("".join(f"<td>{escape(cell)}</td>" for cell in (*row, why or "")))
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in table) + "</table>"


class _Part:
    """A call of a decorated function."""

    def __init__(self, whole: trace) -> None:
        self.whole = whole
        self.part = trace(everywhere=whole._everywhere)

    def __enter__(self) -> None:
        self.part.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self.part.__exit__(*exception)
        self.whole.records.extend(self.part.records)
        self.whole.spans.extend(self.part.spans)


trace.__module__ = "arraybridge"
