"""Records of conversions in the form of the original package, made from those of ``observe``."""

from __future__ import annotations

import threading
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ..tracing import observe
from .devices import HOST, Device

if TYPE_CHECKING:
    from .. import Record

__all__ = [
    "ConversionCounters", "ConversionObserver", "ConversionRecord", "ConversionRoute",
    "ConversionTotal", "DLPackExchange", "DeviceMove", "HostCopy", "IgnoreConversions",
    "SharedHostBuffer", "StaysInPlace",
]  # fmt: skip


class ConversionRoute(ABC):
    """A way to convert, and its name in records.

    >>> from arraybridge import HOST, ArrayLibrary, ConversionRoute
    >>> numpy, torch = ArrayLibrary.named("numpy"), ArrayLibrary.named("torch")
    >>> ConversionRoute.planned(numpy, HOST, numpy, HOST).mechanism
    'stays in place'
    """

    __registry__: ClassVar[dict[str, type[ConversionRoute]]] = {}
    mechanism: ClassVar[str | None] = None
    writes_a_record: ClassVar[bool] = True
    """False for the conversion that returns its argument."""

    def __init_subclass__(cls) -> None:
        if cls.mechanism is not None:
            ConversionRoute.__registry__[cls.mechanism] = cls

    # Takes the source, its device, the target and its device.
    _rule: ClassVar[Any]

    @classmethod
    def applies(
        cls, source: Any, source_device: Device, target: Any, target_device: Device
    ) -> bool:
        """Return whether conversions of this pair may go this way."""
        return bool(cls._rule(source, source_device, target, target_device))

    @classmethod
    def candidates(
        cls, source: Any, source_device: Device, target: Any, target_device: Device
    ) -> tuple[type[ConversionRoute], ...]:
        """Return the ways of a pair, the first choice first."""
        pair = (source, source_device, target, target_device)
        return tuple(way for way in cls.__registry__.values() if way.applies(*pair))

    @classmethod
    def planned(
        cls, source: Any, source_device: Device, target: Any, target_device: Device
    ) -> type[ConversionRoute]:
        """Return the first choice of a pair. ``explain`` says it of an array, with the reason."""
        return cls.candidates(source, source_device, target, target_device)[0]


class StaysInPlace(ConversionRoute):
    """The array is returned as it is."""

    mechanism = "stays in place"
    writes_a_record = False
    _rule = staticmethod(lambda source, here, target, there: source is target and here == there)


class DeviceMove(ConversionRoute):
    """The array goes to another device of its framework."""

    mechanism = "device move"
    _rule = staticmethod(lambda source, here, target, there: source is target and here != there)


class DLPackExchange(ConversionRoute):
    """The target uses the memory of the source, which DLPack describes."""

    mechanism = "dlpack"

    @staticmethod
    def _rule(source: Any, here: Device, target: Any, there: Device) -> bool:
        apart = {"numpy", "pyclesperanto"} & {source.name, target.name}
        return source is not target and here == there and not apart


class SharedHostBuffer(ConversionRoute):
    """The target uses the host memory of the source, which NumPy describes."""

    mechanism = "shared host buffer"

    @staticmethod
    def _rule(source: Any, here: Device, target: Any, there: Device) -> bool:
        ends, on_host = {source.name, target.name}, here == HOST == there
        return len(ends) == 2 and on_host and "numpy" in ends and "pyclesperanto" not in ends


class HostCopy(ConversionRoute):
    """The values are copied."""

    mechanism = "host copy"
    _rule = staticmethod(lambda *pair: True)


# Of the routes of records. "keep" has none, since the original writes no record then.
_MECHANISMS = {"move": DeviceMove.mechanism, "copy": HostCopy.mechanism}


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """A conversion that moved, copied or shared memory."""

    source_library: str
    source_device: str
    target_library: str
    target_device: str
    mechanism: str
    nbytes: int
    seconds: float
    declined_mechanisms: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: Record) -> ConversionRecord | None:
        """Return the record of a conversion; None for a conversion that did nothing."""
        if record.route == "share":
            numpy = "numpy" in (record.source, record.target) and record.device == "host"
            mechanism = (SharedHostBuffer if numpy else DLPackExchange).mechanism
        elif record.route in _MECHANISMS:
            mechanism = _MECHANISMS[record.route]
        else:
            return None
        return cls(
            source_library=record.source,
            source_device=_source_device(record),
            target_library=record.target,
            target_device=record.device,
            mechanism=str(mechanism),
            nbytes=record.nbytes,
            seconds=(record.ns or 0) / 1e9,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dict that JSON takes."""
        return {**asdict(self), "declined_mechanisms": list(self.declined_mechanisms)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ConversionRecord:
        """Return the record that ``to_json`` made a dict of."""
        return cls(**{**row, "declined_mechanisms": tuple(row["declined_mechanisms"])})


def _source_device(record: Record) -> str:
    """Return the device of a source, without a number if the record does not say which it was."""
    if record.route == "move":
        return "accelerator" if record.device == "host" else "another device"
    if "upload" in record.how:
        return "host"
    return "accelerator" if "download" in record.how else record.device


class _OfContext(ABCMeta):
    @property
    def current(cls) -> ConversionObserver:
        """The observer of the context."""
        return _CURRENT.get()

    @current.setter
    def current(cls, observer: ConversionObserver) -> None:
        observer.install()


class ConversionObserver(ABC, metaclass=_OfContext):
    """An object whose ``record`` is called for each conversion of a context.

    New threads have the default observer, which ignores conversions. ``observe`` sees those of all
    threads.
    """

    wants_records: ClassVar[bool] = True
    """False for an observer that ignores conversions."""

    @abstractmethod
    def record(self, record: ConversionRecord) -> None:
        """Take the record of a conversion."""

    @contextmanager
    def installed(self) -> Iterator[ConversionObserver]:
        """Observe the conversions of a block."""
        _HUB.open()
        previous = self._replace()
        try:
            yield self
        finally:
            previous._replace()
            _HUB.close()

    def install(self) -> ConversionObserver:
        """Observe the conversions of the context, and return the observer until now."""
        if self.wants_records:
            _HUB.open()
        return self._replace()

    def _replace(self) -> ConversionObserver:
        previous = _CURRENT.get()
        _CURRENT.set(self)
        return previous


class IgnoreConversions(ConversionObserver):
    """The default: an observer that ignores conversions."""

    wants_records = False

    def record(self, record: ConversionRecord) -> None:
        """Do nothing."""


_IGNORE = IgnoreConversions()
_CURRENT: ContextVar[ConversionObserver] = ContextVar("arraybridge.observer", default=_IGNORE)


class _Hub:
    """Hands each record to the observer of the context that converted.

    It listens while a block is open, and for good once an observer was installed without one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._observation: observe | None = None

    def open(self) -> None:
        with self._lock:
            self._users += 1
            self._observation = self._observation or observe(self._take)

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if self._observation and not self._users:
                self._observation.close()
                self._observation = None

    @staticmethod
    def _take(record: Record) -> None:
        observer = _CURRENT.get()
        if observer.wants_records:
            theirs = ConversionRecord.of(record)
            if theirs is not None:
                observer.record(theirs)


_HUB = _Hub()

_MEASURED = ("nbytes", "seconds")
_KEY = tuple(each.name for each in fields(ConversionRecord) if each.name not in _MEASURED)
_HEADS = ("source", "target", "mechanism", "count", "MB", "seconds", "declined")


@dataclass(slots=True)
class ConversionTotal:
    """The number, the bytes and the seconds of conversions of one kind."""

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class ConversionCounters(ConversionObserver):
    """An observer that adds up: the fields of a record but for its measurements are the key."""

    totals: dict[tuple[Any, ...], ConversionTotal] = field(default_factory=dict)

    def record(self, record: ConversionRecord) -> None:
        """Add a conversion."""
        key = tuple(getattr(record, name) for name in _KEY)
        self._add(key, 1, record.nbytes, record.seconds)

    def _add(self, key: tuple[Any, ...], count: int, nbytes: int, seconds: float) -> None:
        total = self.totals.setdefault(key, ConversionTotal())
        total.count += count
        total.nbytes += nbytes
        total.seconds += seconds

    def merge(self, other: ConversionCounters) -> ConversionCounters:
        """Add the totals of another object, such as one of another process. Return this one."""
        for key, total in other.totals.items():
            self._add(key, total.count, total.nbytes, total.seconds)
        return self

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each kind of conversion that JSON takes. Most bytes come first."""
        totals = sorted(self.totals.items(), key=lambda each: (-each[1].nbytes, each[0]))
        rows = [{**dict(zip(_KEY, key, strict=True)), **asdict(total)} for key, total in totals]
        declined = "declined_mechanisms"
        return [{**row, declined: list(row[declined])} for row in rows]

    to_json = rows

    @classmethod
    def from_json(cls, rows: list[dict[str, Any]]) -> ConversionCounters:
        """Return the totals that ``to_json`` made rows of."""
        counters = cls()
        for row in rows:
            parts = (row[name] for name in _KEY)
            key = tuple(tuple(part) if isinstance(part, list) else part for part in parts)
            counters._add(key, row["count"], row["nbytes"], row["seconds"])
        return counters

    def format_table(self) -> str:
        """Return the rows as a table, a line for each."""
        lines = [_HEADS] + [
            (
                f"{row['source_library']} {row['source_device']}",
                f"{row['target_library']} {row['target_device']}",
                row["mechanism"],
                str(row["count"]),
                f"{row['nbytes'] / 1e6:.1f}",
                f"{row['seconds']:.3f}",
                ", ".join(row["declined_mechanisms"]),
            )
            for row in self.rows()
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(map("{:{}{}}".format, line, "<<<>>><", widths)).rstrip() for line in lines
        )
