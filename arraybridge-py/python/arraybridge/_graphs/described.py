"""What is known without values: the shapes and dtypes of arrays, and the other arguments."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy

from ..exceptions import UnexpectedResultError

__all__: list[str] = []

T = TypeVar("T")


class Keyed:
    """Equal to the objects of its class that have an equal key.

    The first entry of a key has a hash. Others may have none, such as TensorFlow's trees.
    """

    @property
    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key[0])


class Call(Keyed):
    """A call that a framework compiles once for all that are equal and for all numbers in it."""

    numbered = "arguments"  # the attribute that has the numbers

    def apart(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the call with zeros for its numbers, and the numbers."""
        found = copy.copy(self)
        rest, numbers = getattr(self, self.numbered).apart()
        setattr(found, self.numbered, rest)
        return found, numbers

    def bound(self, numbers: Sequence[Any]) -> Any:
        """Return the call with these numbers."""
        found = copy.copy(self)
        setattr(found, self.numbered, getattr(self, self.numbered).bound(numbers))
        return found


class Described(Keyed):
    """The shape and the dtype of an array."""

    without_values = True
    """Rust tells it from an array by this."""

    def __init__(self, shape: Sequence[int | None], dtype: Any) -> None:
        # A length that nobody knows, such as that of a batch, counts as one.
        self.is_open = None in shape
        self.shape = tuple(1 if length is None else int(length) for length in shape)
        self.dtype = dtype

    @classmethod
    def of(cls, array: Any) -> Described:
        return array if type(array) is cls else cls(array.shape, array.dtype)

    @functools.cached_property
    def name(self) -> str:
        """The name of the dtype."""
        return dtype_name(self.dtype)

    @property
    def _key(self) -> tuple[Any, ...]:
        return ((self.shape, self.name),)

    def __str__(self) -> str:
        return f"{self.name}{[*self.shape]}"


def listed(arrays: Sequence[Described]) -> str:
    return ", ".join(map(str, arrays))


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype, which all frameworks share with NumPy."""
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(text).rpartition(".")[2]


def numpy_dtype(array: Any) -> Any:
    """Return NumPy's dtype for that of an array of any framework."""
    name = dtype_name(array.dtype)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


def is_inexact(array: Any) -> bool:
    """Return whether an array, or what describes one, has floats or complex numbers."""
    return dtype_name(array.dtype).startswith(("float", "bfloat", "complex"))


def chosen(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """Return the values whose place in the mask is true."""
    return [value for value, is_chosen in zip(values, mask, strict=True) if is_chosen]


def spread(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """Return a value for each true place of the mask, and None for the others."""
    found = iter(values)
    return [next(found) if is_chosen else None for is_chosen in mask]


def remembered(known: dict[Any, T], key: Any, made: Callable[[], T]) -> T:
    """Return what is known for a key, which ``made`` returns the first time."""
    found = known.get(key)
    if found is None:
        if len(known) >= 64:
            known.clear()
        found = known[key] = made()
    return found


HERE = object()
"""Takes the place of an array among the arguments."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _is_number(leaf: Any) -> bool:
    return type(leaf) is float or (type(leaf) is int and -(2**63) <= leaf < 2**63)


class Arguments(Keyed):
    """The arguments of a call without its arrays. Calls with equal ones differ in arrays alone."""

    def __init__(self, library: Any, tree: Any, rest: Sequence[Any]) -> None:
        # `library` is the module here of the framework whose arrays are left out.
        self.library, self.tree, self.rest = library, tree, tuple(rest)

    @classmethod
    def of(cls, library: Any, value: Any) -> tuple[list[Any], Arguments]:
        """Return the arrays in a value, and the rest of it."""
        leaves, tree = library.flatten(value)
        arrays = [leaf for leaf in leaves if library.is_array(leaf)]
        rest = [HERE if library.is_array(leaf) else leaf for leaf in leaves]
        return arrays, cls(library, tree, rest)

    def filled(self, arrays: Sequence[Any]) -> Any:
        """Return the value with these arrays in it."""
        found = iter(arrays)
        leaves = [next(found) if leaf is HERE else leaf for leaf in self.rest]
        return self.library.unflatten(leaves, self.tree)

    def apart(self) -> tuple[Arguments, tuple[Any, ...]]:
        """Return the arguments with a zero for each number, and the numbers.

        A program that gets these is one for all of them.
        """
        numbers = tuple(filter(_is_number, self.rest))
        return self.bound([type(number)(0) for number in numbers]), numbers

    def bound(self, numbers: Sequence[Any]) -> Arguments:
        """Return the arguments with these numbers."""
        found = iter(numbers)
        rest = [next(found) if _is_number(leaf) else leaf for leaf in self.rest]
        return Arguments(self.library, self.tree, rest)

    @property
    def is_plain(self) -> bool:
        """Whether all arguments but the arrays are numbers, strings and the like."""
        return all(leaf is HERE or type(leaf) in _PLAIN for leaf in self.rest)

    @property
    def _key(self) -> tuple[Any, ...]:
        # Numbers that are equal may differ: 0.0 and -0.0, 1 and True.
        leaves = tuple(
            (type(leaf), repr(leaf) if type(leaf) in _PLAIN else id(leaf)) for leaf in self.rest
        )
        return leaves, self.library, self.tree


def completed(
    function: Any, result: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Call ``result`` with the arguments of a function, and with its defaults under their names."""
    more: dict[str, Any] = {}
    with contextlib.suppress(TypeError, ValueError):
        bound, taken = inspect.signature(function).bind(*args, **kwargs), inspect.signature(result)
        given = set(bound.arguments)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            parameter = taken.parameters.get(name)
            if name not in given and parameter is not None and parameter.default is parameter.empty:
                more[name] = value
    return result(*args, **kwargs, **more)


def by_argument(gradients: Any, args: Sequence[Any], backward: str) -> tuple[Any, ...]:
    """Return a gradient or None for each argument, from what ``backward`` returned."""
    if not isinstance(gradients, tuple):
        return (gradients, *[None] * (len(args) - 1))
    if len(gradients) != len(args):
        raise UnexpectedResultError(
            f"{backward} returned {len(gradients)} gradients for {len(args)} arguments; return one "
            "for each, or None"
        )
    return gradients
