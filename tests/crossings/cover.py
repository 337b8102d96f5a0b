"""Covering arrays: few rows that have every allowed combination of two, or three, values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Row = dict[str, str]


def matches(when: Mapping[str, Any], row: Mapping[str, str]) -> bool:
    """Whether a row has what a rule speaks of: one value, or one of several, by dimension.

    "not" before a value, or before the first of several, turns the meaning. A dimension that the
    row has no value for yet matches nothing.
    """
    for name, wanted in when.items():
        values = [wanted] if isinstance(wanted, str) else wanted
        without = values[0].startswith("not ")
        among = row.get(name) in [value.removeprefix("not ") for value in values]
        if name not in row or among == without:
            return False
    return True


class Cover:
    """Chooses rows one after the other, each with as many combinations as possible that are new.

    Values are numbers, and sets of them bits of an int. The combinations that are left are in an
    array with an axis for each of the `strength` values in them, so that NumPy counts those that a
    value would add.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Sequence[str]],
        forbidden: Sequence[Mapping[str, Any]],
        strength: int = 2,
    ) -> None:
        self.dimensions, self.strength = dimensions, strength
        self.values = [(name, value) for name, values in dimensions.items() for value in values]
        self.number = {value: i for i, value in enumerate(self.values)}
        self.rules = []
        for rule in forbidden:
            sets = [
                self._bits(n, [v for v in dimensions[n] if matches({n: rule[n]}, {n: v})])
                for n in rule
            ]
            if all(sets):
                self.rules.append(sets)
        self.open = np.zeros([len(self.values)] * strength, bool)
        for names in itertools.combinations(dimensions, strength):
            for chosen in itertools.product(*(dimensions[name] for name in names)):
                row = dict(zip(names, chosen, strict=True))
                if self._excluded(row) is not None:
                    for places in itertools.permutations(self._numbers(row)):
                        self.open[places] = True
        self.random = random.Random(0)

    def rows(self, candidates: int = 4) -> list[Row]:
        """Return the rows, the same for the same dimensions and rules."""
        rows: list[Row] = []
        start = 0
        while (left := np.flatnonzero(self.open.reshape(-1)[start:])[:1]).size:
            start += int(left[0])
            chosen = dict(self.values[i] for i in np.unravel_index(start, self.open.shape))
            # Rules together may allow a combination, but no row with it.
            tries = (self._completed(chosen) for _ in range(candidates))
            found = [row for row in itertools.takewhile(lambda row: row is not None, tries) if row]
            best = max(found, key=lambda row: self.open[self._places(row)].sum(), default=chosen)
            self.open[self._places(best)] = False
            rows += [best] if found else []
        return [{name: row[name] for name in self.dimensions} for row in rows]

    def nearest(self, plain: Mapping[str, str]) -> Row | None:
        """Return a row with values that are plain where the rules allow it."""
        return self._completed({}, plain)

    def _bits(self, name: str, values: Iterable[str]) -> int:
        return sum(1 << self.number[name, value] for value in values)

    def _numbers(self, row: Row) -> list[int]:
        return [self.number[item] for item in row.items()]

    def _places(self, row: Row) -> Any:
        return np.ix_(*[np.array(self._numbers(row))] * self.strength)

    def _excluded(self, row: Row) -> int | None:
        """Return the values that rules exclude beside those of a row; None if it breaks a rule."""
        chosen = sum(1 << number for number in self._numbers(row))
        excluded = 0
        for sets in self.rules:
            rest = [bits for bits in sets if not chosen & bits]
            if not rest:
                return None
            if len(rest) == 1:
                excluded |= rest[0]
        return excluded

    def _completed(self, start: Row, plain: Mapping[str, str] | None = None) -> Row | None:
        """Return a row with the given values; None if the rules leave none, or after many steps."""
        steps = 0

        def fill(row: Row) -> Row | None:
            nonlocal steps
            steps += 1
            excluded = self._excluded(row)
            if excluded is None or steps > 100:
                return None
            names = [name for name in self.dimensions if name not in row]
            if not names:
                return row
            allowed = {
                name: [v for v in self.dimensions[name] if not excluded >> self.number[name, v] & 1]
                for name in names
            }
            # A dimension with one value left comes first, or with none, which ends it.
            few = min(names, key=lambda name: len(allowed[name]))
            name = few if len(allowed[few]) < 2 or plain else self.random.choice(names)
            values = allowed[name]
            if plain:
                values = sorted(values, key=lambda value: value != plain[name])
            else:
                values = self._by_gain(row, name, values)
            found = (fill({**row, name: value}) for value in values)
            return next((row for row in found if row is not None), None)

        return fill(dict(start))

    def _by_gain(self, row: Row, name: str, values: list[str]) -> list[str]:
        if len(values) < 2:
            return values
        self.random.shuffle(values)
        chosen = np.array(self._numbers(row))
        new = np.array([self.number[name, value] for value in values])
        gains = self.open[np.ix_(new, *[chosen] * (self.strength - 1))]
        order = np.argsort(-gains.reshape(len(values), -1).sum(1), kind="stable")
        return [values[i] for i in order]
