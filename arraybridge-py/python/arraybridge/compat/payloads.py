"""Shapes of arrays, and objects that carry an array together with something else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy

__all__ = ["ArrayGeometry", "ArrayPayload"]

_Payload = TypeVar("_Payload", bound="ArrayPayload")


class ArrayPayload(ABC):
    """An object that carries an array. Its class says how another array takes its place."""

    @abstractmethod
    def array_payload_data(self) -> Any:
        """Return the array."""

    @abstractmethod
    def with_data(self: _Payload, data: Any) -> _Payload:
        """Return an object that carries ``data`` and everything else of this one."""

    def map_array_payload(self: _Payload, transform: Callable[[Any], Any]) -> _Payload:
        """Return an object with the array that ``transform`` makes.

        The object itself is returned if ``transform`` returns the array that it was given.
        """
        old = self.array_payload_data()
        new = transform(old)
        return self if new is old else self.with_data(new)


@dataclass(frozen=True, slots=True)
class ArrayGeometry:
    """The shape of an array, without its values.

    >>> import numpy, arraybridge
    >>> arraybridge.ArrayGeometry.from_value(numpy.zeros((2, 3)))
    ArrayGeometry(shape=(2, 3))
    """

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @classmethod
    def from_value(cls, value: object) -> ArrayGeometry | None:
        """Return the shape of an array, a payload or a nested list; None if it has none.

        The values of an array that has a ``shape`` are not read.
        """
        data = value.array_payload_data() if isinstance(value, ArrayPayload) else value
        shape = getattr(data, "shape", None)
        try:
            if shape is None:
                shape = numpy.asarray(data).shape
            return cls(tuple(int(length) for length in shape))
        except (TypeError, ValueError):
            return None

    @classmethod
    def require_from_value(cls, value: object, *, value_name: str = "Value") -> ArrayGeometry:
        """Return the shape of a value, as ``from_value`` does.

        Raises ``TypeError`` with ``value_name`` if the value has no shape.
        """
        found = cls.from_value(value)
        if found is None:
            kind = type(value).__name__
            raise TypeError(f"{value_name} requires concrete array geometry, got {kind}.")
        return found
