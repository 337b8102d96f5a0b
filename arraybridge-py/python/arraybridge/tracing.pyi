from types import TracebackType
from typing import Any, final

from . import Record

__all__ = ["trace"]

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

    records: list[Record]
    def __init__(self) -> None: ...
    def __enter__(self) -> list[Record]: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...
    def totals(self) -> list[dict[str, Any]]:
        """Add up the records of equal ``source``, ``target``, ``route``, ``how`` and ``why``.

        Returns a list of dicts with these keys and ``number`` (of records), ``nbytes`` and ``ns``.
        What took the most time comes first.
        """
    def to_json(self) -> str:
        """Return a JSON object with ``records``, each with its fields, and ``totals``."""
    def _repr_html_(self) -> str: ...
