"""Write traces in the trace-event format, which Chrome and Perfetto show as a timeline.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arraybridge import Record

__all__ = ["trace_events"]

ARGUMENTS = (
    "source", "target", "route", "how", "why", "remedy", "via", "dtype", "shape", "nbytes",
    "device", "file", "line",
)  # fmt: skip


def trace_events(records: Iterable[Record], spans: Iterable[Record]) -> dict[str, Any]:
    """One complete event for each record and span that has a time."""
    # That a retry succeeded is a record, but its rung is a span.
    made = [record for record in records if record.route != "retry"]
    timed = [each for each in [*made, *spans] if each.start is not None and each.ns is not None]
    # In a thread, what contains others comes before them.
    timed.sort(key=lambda each: (each.start, -(each.ns or 0)))
    first = timed[0].start or 0 if timed else 0
    processes = dict.fromkeys(each.pid for each in timed)
    return {
        "traceEvents": [
            *({"name": "process_name", "ph": "M", "pid": pid, "tid": 0,
               "args": {"name": f"Python {pid}"}} for pid in processes),
            *(_event(each, first) for each in timed),
        ],
        "displayTimeUnit": "ns",
        "otherData": {"start_ns": first},
    }  # fmt: skip


def _event(record: Record, first: int) -> dict[str, Any]:
    name, category = _name(record)
    found = {key: getattr(record, key) for key in ARGUMENTS}
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": ((record.start or 0) - first) / 1000,
        "dur": (record.ns or 0) / 1000,
        "pid": record.pid,
        "tid": record.thread,
        "args": {key: value for key, value in found.items() if value},
    }


def _name(record: Record) -> tuple[str, str]:
    if record.route == "call":
        return record.how, "call"
    if record.route == "rung":
        return f"retry: {record.how}", "rung"
    if record.how == "dtype policy":
        return f"dtype policy: {record.dtype}", "dtype"
    return f"{record.source} -> {record.target}", "conversion"
