"""Tables that are loaded while the program runs, by hand or from installed packages."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import _core
from .exceptions import InvalidTableError

__all__ = ["load_table"]

GROUP = "arraybridge.tables"

# The frameworks of this build. `__all__` lists what belongs to these, as the stubs do.
BUILT: tuple[str, ...] = tuple(framework["name"] for framework in _core._frameworks())
_adders: list[Callable[[dict[str, Any]], object]] = []


def each(add: Callable[[dict[str, Any]], object]) -> None:
    """Call ``add`` with the description of each framework, now and whenever a table is loaded."""
    _adders.append(add)
    for framework in _core._frameworks():
        add(framework)


def load_table(path: str | os.PathLike[str] | None = None, *, text: str | None = None) -> list[str]:
    """Load the tables of a TOML file: their frameworks are known from now on.

    The frameworks take part in everything as those of the build do: conversions, decorators
    (``arraybridge.my_framework``), ``MemoryType`` and all else. Nothing is imported before it is
    needed. A file that was loaded before is not loaded again. To have a table in every process, run
    ``python -m arraybridge add FILE`` once, or let a package ship it: see "Add a framework" in the
    documentation.

    Parameters
    ----------
    path : str or os.PathLike, optional
        The file.
    text : str, optional
        Its text, instead of a file.

    Returns
    -------
    list of str
        The names of the frameworks that were added.

    Raises
    ------
    InvalidTableError
        With all mistakes of the file, each with its line and column. A name or a class that another
        table has is a mistake too.
    OSError
        If the file cannot be read.
    TypeError
        Unless either a path or a text is given.

    Examples
    --------
    >>> import arraybridge, decimal, numpy
    >>> arraybridge.load_table(text='''
    ... [decimal]
    ... title = "Decimal numbers"
    ... classes = ["decimal.Decimal"]
    ... memory = "host"
    ... ndim = [0, 0]
    ... dtypes = ["float64"]
    ... dtype = "name"
    ... dtype_of = '"float64"'
    ... shape_of = "[]"
    ... empty = false
    ... to_numpy = "numpy.asarray(data.__float__())"
    ... from_numpy = "module.Decimal(data.item())"
    ... oom = [{ class = "builtins.MemoryError" }]
    ... ''')
    ['decimal']
    >>> arraybridge.convert(numpy.array(0.5), "decimal")
    Decimal('0.5')
    """
    if (path is None) == (text is None):
        raise TypeError("load_table() takes the path of a file, or text=, and not both")
    if text is not None:
        return _loaded("<text>", text)
    label = os.path.abspath(os.fspath(path))  # type: ignore[arg-type]
    try:
        with open(label, encoding="utf-8-sig") as file:
            return _loaded(label, file.read())
    except UnicodeDecodeError:
        raise InvalidTableError([f"{label} is not text in UTF-8"]) from None


def _loaded(label: str, text: str) -> list[str]:
    frameworks, mistakes = _core._load_table(label, text)
    if mistakes:
        raise InvalidTableError(mistakes)
    for framework in frameworks:
        for add in _adders:
            add(framework)
    return [framework["name"] for framework in frameworks]


def absent(label: str, text: str, offset: int, name: str, near: str) -> str:
    """Where a name that does not exist stands in the text of a file, and what is probably meant.

    A negative offset means that the place is not known.
    """
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    where = f"{label}:{line}:{column}: " if offset >= 0 else ""
    return f"{where}there is no `{name}`" + (f"; write `{near}`" if near else "")


def missing(error: AttributeError) -> str:
    """Where a table names the attribute that was not found, and what is meant.

    That is an empty string for the tables of this repository, and for an attribute of an object
    that is neither in a module nor of a class of a table that names it.
    """
    import difflib
    import re
    from types import ModuleType

    name, owner, kind = error.name or "", error.obj, type(error.obj)
    if isinstance(owner, ModuleType):
        told = owner.__name__.partition(".")[0]
    else:
        told = f'"{kind.__module__}.{kind.__qualname__}"'
    pattern = re.compile(rf"\.{re.escape(name)}\b")
    for label, text in _core._tables()[1:] if name else ():
        start = text.find(told)
        found = start >= 0 and (pattern.search(text, start) or pattern.search(text))
        if found:
            near = next(iter(difflib.get_close_matches(name, dir(owner), 1, 0.75)), "")
            return absent(label, text, found.start() + 1, name, near)
    return ""


# What was read of tables, which do not change.
_METADATA: dict[str, dict[str, Any] | None] = {}


def metadata(name: str) -> dict[str, Any] | None:
    """What the table of a framework says of metadata; None if that is unknown.

    The arrays of the frameworks of this repository carry nothing besides their values.
    """
    import tomllib

    for number, (_, text) in enumerate(_core._tables() if name not in _METADATA else ()):
        keys = tomllib.loads(text).get(name)
        if keys is not None:
            found: dict[str, Any] | None = keys.get("metadata", {} if number == 0 else None)
            _METADATA[name] = found and {**found, "module": keys.get("module", name)}
    return _METADATA.get(name)


def discover(package: str | None) -> bool:
    """Load the tables that installed packages ship. Return whether they were read.

    They are not if an object of ``package`` is the reason and no package ships a table for it.
    The current folder is left out of the path, so that no table comes from there.
    """
    if package in ("__main__", "arraybridge", "builtins", "numpy"):
        return False
    problems = []
    for distribution, entry, file in shipped():
        if file is None:
            problems.append(
                f"the package {distribution} ships a table {entry.name}, but {entry.value!r} is "
                f'not the name of a file in it, such as "{entry.module}:table.toml"'
            )
            continue
        try:
            load_table(file)
        except (InvalidTableError, OSError) as error:
            problems.append(f"{error} (in the package {distribution})")
    # A warning may be an error, and the other tables are loaded then.
    for problem in problems:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)
    return True


def shipped() -> Iterator[tuple[str, Any, str | None]]:
    """The tables that packages ship: of each the package, the entry point and the file."""
    from importlib import metadata

    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = ""
    path = [each for each in sys.path if each and os.path.abspath(each) != here]
    for distribution in metadata.distributions(path=path):
        try:
            entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        except Exception:  # what a package says of itself may be broken in any way
            continue
        for entry in entries:
            yield distribution.name, entry, _file(entry, distribution, path)


def _file(entry: Any, distribution: Any, path: list[str]) -> str | None:
    with contextlib.suppress(Exception):  # that of a finder
        folders = _folders(entry.module, distribution, path)
        files = (os.path.join(folder, entry.attr or "") for folder in folders)
        return next(filter(os.path.isfile, files), None)
    return None


def _folders(module: str, distribution: Any, path: list[str]) -> Iterator[str]:
    """The folders that may have the files of a module. Nothing is imported."""
    top, *rest = module.split(".")
    yield os.fspath(distribution.locate_file(os.path.join(top, *rest)))
    # A package that is installed from its sources is elsewhere.
    for finder in sys.meta_path:
        is_usual = getattr(finder, "__name__", "") == "PathFinder"
        spec = finder.find_spec(top, path if is_usual else None)
        for folder in (spec and spec.submodule_search_locations) or ():
            yield os.path.join(folder, *rest)
