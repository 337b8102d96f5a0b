"""Convert the arrays in nested containers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, final

from . import _core  # type: ignore[attr-defined]
from ._blocks import _BARS
from ._core import convert, explain  # type: ignore[import-not-found]
from .exceptions import MemoryConversionError, UnsupportedDtypeError
from .tracing import Report

if TYPE_CHECKING:
    from . import Record

__all__ = ["TreePlan", "convert_tree", "explain_tree"]

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
# Libraries that know the nodes of other classes, with the functions for one level of a tree.
_LIBRARIES = ("optree", "jax.tree_util", "torch.utils._pytree")
# From the cheapest route to the dearest. A tree takes that of its dearest leaf.
_ROUTES = ("keep", "share", "move", "copy")

# `progress` shows a bar for more arrays than these.
_MANY = 1000
# Stands for what a tree would hold instead, where nothing is made.
_CHANGED = object()

_Opened = tuple[list[Any], Callable[[list[Any]], Any]]


def convert_tree(
    tree: Any,
    target: Any,
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    is_leaf: Callable[[Any], Any] | None = None,
    keep: bool | str | None = None,
    narrow: str | None = None,
    namespace: str = "",
) -> Any:
    """Convert the arrays in nested containers to arrays of `target`.

    Containers are lists, tuples, named tuples, dicts and other mappings in memory, dataclasses,
    classes of attrs, and whatever is registered with ``jax.tree_util``, ``torch.utils._pytree`` or
    ``optree``. Their classes and their order stay. An object that is no
    array stays as it is, and the same array twice stays the same array. A trace gets one record,
    with the number of arrays in ``how`` and their bytes.

    Parameters
    ----------
    tree : container
        What holds the arrays, up to 64 levels deep. An array is a tree too.
    target, device, copy, dtype, keep
        As in `convert`, for each array.
    narrow : {"warn", "error"}, optional
        What becomes of an array whose dtype `target` lacks: the nearest dtype, with a
        NarrowedDtypeWarning, or an error, which is the default. A value that does not fit is an
        error.
    is_leaf : callable, optional
        A function of a container, or of anything else in the tree. If it returns True, arraybridge
        does not look into the object. It is converted only if it is an array.
    namespace : str, optional
        The namespace in which classes are registered with ``optree``.

    Returns
    -------
    container
        A tree like `tree`. If nothing changes, it is `tree` itself.

    Raises
    ------
    MemoryConversionError
        As in `convert`; ``place`` is the place of the array in the tree.
    TypeError
        If containers are nested more than 64 levels deep, or if one with arrays to convert holds
        itself.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> weights = {"layer": [numpy.ones((2, 3), "float32"), "relu"]}
    >>> halves = arraybridge.convert_tree(weights, "numpy", dtype="float16")
    >>> halves["layer"][0].dtype, halves["layer"][1]
    (dtype('float16'), 'relu')
    """
    asked = _given(device=device, copy=copy, dtype=dtype, keep=keep)
    made = _asked("convert_tree", convert, asked, narrow)
    walk = _Walk("convert_tree", is_leaf, namespace)
    bar: Any = None if (make := _BARS.get()) is None else _bar(make, tree, is_leaf, namespace)

    def stepped(leaf: Any, target: Any) -> Any:
        result = made(leaf, target)
        bar.update(1)
        return result

    def mapped() -> tuple[Any, int]:
        ask = made if bar is None else stepped
        if is_leaf is None:
            found = _core._mapped(tree, ask, target, walk.at_place)
            if found is not None:
                return found
        return walk.mapped(tree, lambda leaf: ask(leaf, target)), len(walk.done)

    try:
        (result, number), records, start = _core._gathered(mapped)
    finally:
        if bar is not None:
            bar.close()
    if records and start is not None:
        _core._push(_summary(records, number), start)
    return result


def explain_tree(
    tree: Any,
    target: Any,
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    is_leaf: Callable[[Any], Any] | None = None,
    keep: bool | str | None = None,
    narrow: str | None = None,
    namespace: str = "",
) -> TreePlan:
    """Explain what `convert_tree` would do with the same arguments, without doing it.

    Returns
    -------
    TreePlan
        ``leaves`` has the Record of each array by its place; ``nbytes`` and ``copied`` are totals.

    Raises
    ------
    MemoryConversionError, TypeError
        If `convert_tree` would raise it before reading the data.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> plan = arraybridge.explain_tree({"a": numpy.zeros(3), "b": [None]}, "numpy", copy=True)
    >>> plan.copied, plan.leaves["['a']"].why
    (24, 'copy=True asks for fresh memory')
    """
    asked = _given(device=device, copy=copy, dtype=dtype, keep=keep)
    made = _asked("explain_tree", explain, asked, narrow)
    leaves: dict[str, Record] = {}
    walk = _Walk("explain_tree", is_leaf, namespace)

    def explained(leaf: Any) -> Any:
        record = leaves[walk.place()] = made(leaf, target)
        return leaf if record.route == "keep" else _CHANGED

    walk.mapped(tree, explained)
    return TreePlan(leaves)


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not left out: each costs time in each call."""
    return {name: value for name, value in options.items() if value is not None}


def _asked(
    function: str, ask: Callable[..., Any], asked: dict[str, Any], narrow: str | None
) -> Callable[[Any, Any], Any]:
    """A conversion of a leaf, or its explanation, which may give it the nearest dtype."""
    if narrow not in (None, "warn", "error"):
        raise ValueError(f'{function}(): unknown narrow {narrow!r}; use "warn" or "error"')
    made = partial(ask, **asked) if asked else ask
    if narrow != "warn" or "dtype" in asked:
        return made
    options = {name: value for name, value in asked.items() if name != "keep"}
    is_explained = ask is explain

    def narrowed(leaf: Any, target: Any) -> Any:
        try:
            return made(leaf, target)
        except UnsupportedDtypeError:
            if _core._likeness(leaf) != "array":
                raise
            return _core._narrowed(
                leaf, target, function=function, is_explained=is_explained, **options
            )

    return narrowed


@final
class TreePlan(Report):
    """The plan of `convert_tree`. ``str()`` of it is a table, with the totals in its last row.

    >>> import numpy, arraybridge
    >>> plan = arraybridge.explain_tree([numpy.zeros(3), numpy.ones(2)], "numpy")
    >>> plan.nbytes, plan.copied, list(plan.leaves)
    (40, 0, ['[0]', '[1]'])
    """

    __slots__ = ("leaves",)
    _head = ("array", "dtype", "size", "route")

    def __init__(self, leaves: dict[str, Record]) -> None:
        self.leaves = leaves
        """The record of each array, by its place in the tree. An array that is there twice is here
        once."""

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(record.nbytes for record in self.leaves.values())

    @property
    def copied(self) -> int:
        """Bytes that would be copied."""
        return sum(r.nbytes for r in self.leaves.values() if r.route in ("copy", "move"))

    def _rows(self) -> list[tuple[tuple[str, ...], str | None]]:
        from ._tools.page import size

        rows: list[tuple[tuple[str, ...], str | None]] = []
        for place, record in self.leaves.items():
            kind = f"{record.dtype}{list(record.shape)}"
            rows.append(((place, kind, size(record.nbytes), record.route), record.why))
        total = ("total", f"{len(self.leaves)} arrays", size(self.nbytes))
        rows.append(((*total, f"{size(self.copied)} copied"), None))
        return rows

    def __repr__(self) -> str:
        from ._tools.page import size

        total = f"{size(self.nbytes)}, {size(self.copied)} copied"
        return f"<plan of a tree: {len(self.leaves)} arrays, {total}>"


def _bar(make: Callable[..., Any], tree: Any, is_leaf: Any, namespace: str) -> Any:
    """A bar of as many steps as the tree has arrays, if these are many."""
    walk = _Walk("convert_tree", is_leaf, namespace)
    walk.mapped(tree, lambda leaf: leaf)
    number = len(walk.done)
    return make(desc="convert_tree", total=number, unit="array") if number > _MANY else None


class _Walk:
    """A walk through a tree, which knows where it is."""

    def __init__(self, function: str, is_leaf: Callable[[Any], Any] | None, namespace: str) -> None:
        self.function = function
        self.is_leaf = is_leaf
        self.namespace = namespace
        self.above: list[Any] = []
        self.indexes: list[int] = []
        # The places of the items of each container above, once they are asked for.
        self.names: list[list[str] | None] = []
        # The items of all containers. A container may make them anew each time that it is asked.
        self.kept: list[list[Any]] = []
        # The addresses of the containers that hold themselves.
        self.cyclic: set[int] = set()
        # The results by the addresses of the arrays, which the walk keeps alive.
        self.done: dict[int, Any] = {}

    def mapped(self, node: Any, visit: Callable[[Any], Any]) -> Any:
        """Return the tree with what `visit` returns for each array, which it is called for once."""
        done = self.done

        def once(leaf: Any) -> Any:
            address = id(leaf)
            if address not in done:
                try:
                    done[address] = visit(leaf)
                except MemoryConversionError as error:
                    raise self.at_leaf(error) from None
            return done[address]

        likeness = _core._likeness(node)
        return once(node) if likeness == "array" else self._of(node, likeness, once)

    def _of(self, node: Any, likeness: str | None, visit: Callable[[Any], Any]) -> Any:
        """Return the result of `mapped` for a node that is no array."""
        opened = None
        if self.is_leaf is None or not self.is_leaf(node):
            opened = self._opened(node, likeness)
        if opened is None:
            return node if likeness is None else visit(node)
        if len(self.above) == _core._DEEPEST:
            raise TypeError(f"containers are nested more than {_core._DEEPEST} levels deep")
        items, rebuild = opened
        self.kept.append(items)
        self.above.append(node)
        self.indexes.append(0)
        self.names.append(None)
        made, indexes, likeness_of = [], self.indexes, _core._likeness
        for index, item in enumerate(items):
            indexes[-1] = index
            # Most items are arrays, for which another call costs a tenth of the conversion.
            likeness = likeness_of(item)
            is_array = likeness == "array"
            made.append(visit(item) if is_array else self._of(item, likeness, visit))
        self.above.pop()
        self.indexes.pop()
        self.names.pop()
        if all(map(is_, made, items)):
            return node
        if id(node) in self.cyclic:
            # A copy of it would hold the old one.
            where = f"{self.function}(): tree{self.place()}: a {type(node).__name__}"
            way = "so the arrays in it cannot be converted; pass it without the cycle"
            raise TypeError(f"{where} holds itself, {way}")
        return rebuild(made) if self.function == "convert_tree" else _CHANGED

    def _opened(self, node: Any, likeness: str | None) -> _Opened | None:
        """The items of a container, and the function that makes one like it of others."""
        if type(node) in _PLAIN:
            return None
        if any(other is node for other in self.above):
            self.cyclic.add(id(node))
            return None
        own = None if likeness else _core._opened(node)
        return self._of_library(node, own) or (own and (own[0], partial(_core._rebuilt, node)))

    def place(self) -> str:
        """Where the present leaf is in the tree."""
        parts = []
        for level, (node, index) in enumerate(zip(self.above, self.indexes, strict=True)):
            names = self.names[level]
            if names is None:
                is_foreign = self._of_library(node, _core._opened(node)) is not None
                names = self.names[level] = [] if is_foreign else _core._places(node)
            parts.append(names[index] if names else f"[<flat index {index}>]")
        return "".join(parts)

    def _of_library(self, node: Any, own: tuple[list[Any], bool] | None) -> _Opened | None:
        """The items of a node of a class that a loaded library knows, and how to make another one.

        `own` is what arraybridge knows of it. A library is asked about an object with fields first,
        since it knows which of them are parts of the tree.
        """

        def is_below(other: Any) -> bool:
            return other is not node

        if own is not None and not own[1]:
            return None
        for name in _LIBRARIES:
            library = sys.modules.get(name)
            if library is None or not hasattr(library, "tree_unflatten"):
                continue
            own_options = {"none_is_leaf": True, "namespace": self.namespace}
            options = own_options if name == "optree" else {}
            items, spec = library.tree_flatten(node, is_leaf=is_below, **options)
            if len(items) != 1 or items[0] is not node:
                return list(items), spec.unflatten
        return None

    def at_leaf(self, error: MemoryConversionError) -> MemoryConversionError:
        """The error, which says where the leaf is."""
        return self.at_place(error, self.place() if error.place is None else "")

    def at_place(self, error: BaseException, place: str) -> Any:
        """The error, which says that the leaf is at a place."""
        if isinstance(error, MemoryConversionError) and error.place is None:
            error.place = f"{self.function}(): leaf tree{place}"
            error.args = (*error.args[:4], error.place)
        return error


def _summary(records: list[Record], number: int) -> Record:
    """One record of a tree, made of those of its arrays."""

    def of_all(values: Iterator[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    routes = {route: [r for r in records if r.route == route] for route in _ROUTES}
    used = [route for route, those in routes.items() if those]
    route = used[-1] if used else records[0].route
    parts = [f"{sum(r.nbytes for r in routes[r_])} bytes {r_}" for r_ in used]
    # The reason that most bytes were copied for; its remedy is the first to try.
    reasons: dict[str, int] = {}
    for record in records:
        if record.why is not None:
            reasons[record.why] = reasons.get(record.why, 0) + record.nbytes
    return _core.Record(
        of_all(r.source for r in records),
        records[0].target,
        route,
        f"a tree of {number} arrays, {', '.join(parts)}",
        max(reasons, key=reasons.__getitem__, default=None),
        of_all(r.via for r in records),
        of_all(r.dtype for r in records),
        (),
        sum(r.nbytes for r in records),
        of_all(r.device for r in records),
        None,
    )


for _name in __all__:
    globals()[_name].__module__ = "arraybridge"
