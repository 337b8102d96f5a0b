"""The calls of a function that had to be split, since memory ran out."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .. import _core  # type: ignore[attr-defined]

__all__: list[str] = []

# After so many calls with a lead that did not fit, the whole is tried again: memory may be free.
_TRIED_AGAIN = 32
# The number of unlike calls that a function remembers.
_MOST_KNOWN = 4
# A call with more traits is like no other: to compare it would take too long.
_MOST_TRAITS = 256

# The shape of an array without the length that is cut, its class and its dtype.
_Array = tuple[tuple[int, ...], type, Any]
# An array in the arguments: the argument, and the index in it if that is a container.
_Place = tuple[int | str, int | None]


class Room:
    """The length of leads for which memory suffices, by the last unlike calls that were split."""

    def __init__(self) -> None:
        self._known: list[_Known] = []

    def part(self, traits: Any) -> int | None:
        """Return the longest part that fitted in a call like this one."""
        known = self._find(traits)
        return None if known is None else known.part

    def begins_with_parts(self, traits: Any, extent: int) -> bool:
        """Return whether a call with a lead of this length should be split at once."""
        known = self._find(traits)
        if known is None or extent < known.exceeded:
            return False
        known.split += 1
        return known.split % _TRIED_AGAIN != 0

    def note_split(self, traits: Any, extent: int, part: int) -> None:
        """Note that a lead of this length had to be split, and the longest part."""
        known = self._find(traits)
        if known is None:
            self._known = [*self._known, _Known(traits, extent, part)][-_MOST_KNOWN:]
        else:
            known.part, known.exceeded = part, min(known.exceeded, extent)

    def note_whole(self, traits: Any, extent: int) -> bool:
        """Note that a lead of this length fitted. Return whether any call is remembered."""
        known = self._find(traits)
        if known is not None and extent >= known.exceeded:
            self._known = [each for each in self._known if each is not known]
        return bool(self._known)

    def _find(self, traits: Any) -> _Known | None:
        return next((each for each in self._known if _are_equal(each.traits, traits)), None)


class _Known:
    """Calls that are alike."""

    def __init__(self, traits: Any, exceeded: int, part: int) -> None:
        # The shortest lead that had to be split, and the longest part that fitted.
        self.traits, self.exceeded, self.part = traits, exceeded, part
        # The number of calls that were split without trying the whole.
        self.split = 0


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        return False


def traits(
    arrays: Sequence[_Array],
    places: Collection[_Place],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
) -> Any:
    """Return what calls that are alike have in common; None if that cannot be told."""
    walk = _Walk(places)
    try:
        found = tuple((shape, _leaf(kind), _leaf(dtype)) for shape, kind, dtype in arrays)
        given: list[tuple[int | str, Any]] = [*enumerate(args), *(kwargs or {}).items()]
        return found, tuple((key, walk.argument(key, value)) for key, value in given)
    except Exception:
        return None


class _Walk:
    """Looks into arguments, but not into the arrays in them, which are known."""

    def __init__(self, places: Collection[_Place]) -> None:
        self._places, self._left = places, _MOST_TRAITS

    def argument(self, key: int | str, value: Any) -> Any:
        self._key, self._next = key, 0
        return "array" if (key, None) in self._places else self._traits(value)

    def _traits(self, value: Any) -> Any:
        self._left -= 1
        # This also ends lists that contain themselves.
        if self._left < 0:
            raise OverflowError
        opened = None if _core._likeness(value) == "array" else _core._opened(value)
        if opened is not None:
            keys = tuple(map(_leaf, value)) if isinstance(value, dict) else ()
            return type(value), keys, tuple(map(self._traits, opened[0]))
        self._next += 1
        return "array" if (self._key, self._next - 1) in self._places else _leaf(value)


def _leaf(value: Any) -> Any:
    try:
        return _Identity(weakref.ref(value))
    except TypeError:
        # What has a hash does not change: a number, a string or a dtype. 1 and True are equal.
        hash(value)
        return type(value), value


class _Identity:
    """An object that is equal to itself alone, and is not kept alive."""

    def __init__(self, ref: weakref.ref[Any]) -> None:
        # A living object has one reference without a callback.
        self._ref = ref

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._ref is other._ref
