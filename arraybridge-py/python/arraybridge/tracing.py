"""Collect what conversions did, and add it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from . import _core  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from . import Record

__all__ = ["trace"]

FIELDS = (
    "source", "target", "route", "how", "why", "via", "dtype", "shape", "nbytes", "device", "ns",
)  # fmt: skip
HEAD = ("conversion", "number", "size", "time", "route")


@final
class trace:
    """Collect a record of every conversion in the context: ``with trace() as records``.

    Traces nest: an outer trace also collects the records of an inner one. Other threads, and
    asyncio tasks that were started before, have contexts of their own. Raises ``RuntimeError`` when
    one object is entered twice.

    ``str()`` of the object is a table of totals, which notebooks show as HTML.

    >>> import numpy, arraybridge
    >>> collected = arraybridge.trace()
    >>> with collected as records:
    ...     _ = arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    >>> [record.route for record in records]
    ['copy']
    >>> collected.totals()[0]["nbytes"]
    24
    """

    __slots__ = ("_block", "records")

    def __init__(self) -> None:
        self._block = _core.trace()
        self.records: list[Record] = []
        """The records of the last ``with`` block, in order."""

    def __enter__(self) -> list[Record]:
        self.records = self._block.__enter__()
        return self.records

    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None, /) -> None:
        self._block.__exit__(kind, error, traceback)

    def totals(self) -> list[dict[str, Any]]:
        """Add up the records of equal ``source``, ``target``, ``route``, ``how`` and ``why``.

        Returns a list of dicts with these keys and ``number`` (of records), ``nbytes`` and ``ns``.
        What took the most time comes first.
        """
        found: dict[tuple[str | None, ...], dict[str, Any]] = {}
        for record in self.records:
            key = {name: getattr(record, name) for name in FIELDS[:5]}
            zero = {**key, "number": 0, "nbytes": 0, "ns": 0}
            total = found.setdefault(tuple(key.values()), zero)
            total["number"] += 1
            total["nbytes"] += record.nbytes
            total["ns"] += record.ns or 0
        return sorted(found.values(), key=lambda total: -total["ns"])

    def to_json(self) -> str:
        """Return a JSON object with ``records``, each with its fields, and ``totals``."""
        import json

        records = [{name: getattr(each, name) for name in FIELDS} for each in self.records]
        return json.dumps({"records": records, "totals": self.totals()})

    def _rows(self) -> list[tuple[tuple[str, ...], str | None]]:
        from ._tools.page import duration, size

        def cells(name: str, found: list[dict[str, Any]], route: str) -> tuple[str, ...]:
            number, nbytes, ns = (sum(t[key] for t in found) for key in ("number", "nbytes", "ns"))
            return name, str(number), size(nbytes), duration(ns / 1e9), route

        totals = self.totals()
        rows = []
        for total in totals:
            name, route = "{source} -> {target}", "{route}: {how}"
            row = cells(name.format_map(total), [total], route.format_map(total))
            rows.append((row, total["why"]))
        return [*rows, (cells("total", totals, ""), None)]

    def __str__(self) -> str:
        from ._tools.page import reasoned_table

        return reasoned_table(HEAD, self._rows())

    def _repr_html_(self) -> str:
        from html import escape

        table = ["".join(f"<th>{name}</th>" for name in (*HEAD, "why"))]
        for row, why in self._rows():
            table.append("".join(f"<td>{escape(cell)}</td>" for cell in (*row, why or "")))
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in table) + "</table>"


trace.__module__ = "arraybridge"
