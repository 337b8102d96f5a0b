"""Parts of the ladder: the copy of a function for the host, and the frames of a failed attempt.

A framework without host arrays, such as CuPy, names host modules that have the same functions. The
copy refers to the host modules wherever the function refers to modules of the framework: by a
global name, a default, a closure or an import in its body. No module is changed: the copy has
globals of its own.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core

__all__: list[str] = []

# An object that is not replaced, or an attribute that is not there.
_NONE = object()


class _NoCounterpart(Exception):  # noqa: N818
    """Something has no counterpart on the host, in words."""


def for_host(function: Any, framework: str, modules: Sequence[tuple[str, str]]) -> Any:
    """Return the copy of a function, or in words why there is none.

    ``modules`` are the modules of the framework, each with the host module that replaces it.
    """
    try:
        copy = _Copier(framework, modules).replace("the function", function)
    except _NoCounterpart as error:
        return str(error)
    if copy is function:
        return "the function is not written in Python, or is in another module"
    return copy


def clear_frames(error: BaseException) -> None:
    """Clear the frames of an error's traceback, which keep every local variable alive.

    The error that the caller is handling may be its context. Its frames are the caller's and stay.
    """
    pending: list[BaseException | None] = [error]
    seen = [sys.exception(), None]
    while pending:
        each = pending.pop()
        if each is None or any(each is other for other in seen):
            continue
        seen.append(each)
        traceback.clear_frames(each.__traceback__)
        pending += [each.__cause__, each.__context__]


class _Copier:
    def __init__(self, framework: str, modules: Sequence[tuple[str, str]]) -> None:
        self._framework = framework
        self._modules = modules
        # By the addresses of the originals, which the function that is copied keeps alive.
        self._copies: dict[int, Any] = {}
        self._globals: dict[int, dict[str, Any]] = {}

    def replace(self, name: str, value: Any) -> Any:
        """Return what replaces a value that the function refers to, or the value."""
        if id(value) in self._copies:
            return self._copies[id(value)]
        if isinstance(value, types.ModuleType):
            found = self._counterpart(value.__name__)
            return value if found is None else found
        if (known := _core._known(value)) is not None:
            framework, function = known
            if framework != self._framework:
                return value
            return (
                _core.convert(value, "numpy") if function is None else self.replace(name, function)
            )
        if (found := self._imported(name, value)) is not _NONE:
            return found
        if (theirs := _globals_of(value)) is not None:
            return self._copy(value, theirs)
        if isinstance(value, functools.partial):
            function = self.replace(name, value.func)
            given = [self.replace(name, each) for each in value.args]
            return functools.partial(function, *given, **self._mapping(value.keywords))
        if isinstance(value, types.MethodType):
            function = self.replace(name, value.__func__)
            if function is not value.__func__:
                return types.MethodType(function, value.__self__)
        return value

    def _replace_global(self, name: str, value: Any, own: dict[str, Any]) -> Any:
        """Do the same as `replace` for a global name. Functions of other modules stay."""
        _, function = _core._known(value) or (None, None)
        theirs = _globals_of(value if function is None else function)
        if theirs is None or theirs is own:
            return self.replace(name, value)
        found = self._imported(name, value)
        return value if found is _NONE else found

    def _mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.replace(name, value) for name, value in values.items()}

    def _copy(self, function: Any, original: dict[str, Any]) -> types.FunctionType:
        code, closure = function.__code__, function.__closure__
        names = list(_names(code))
        own = self._copy_globals(original)
        cells = None if closure is None else tuple(types.CellType() for _ in closure)
        copy = types.FunctionType(code, own, function.__name__, None, cells)
        # It is known before what it refers to is copied: functions may refer to themselves, and to
        # one another.
        self._copies[id(function)] = copy
        for cell, theirs in zip(cells or (), closure or (), strict=True):
            value = _attribute(theirs, "cell_contents")
            if value is not _NONE:  # A cell that is still empty stays empty.
                cell.cell_contents = self.replace("a closure", value)
        for name in names:
            if name in original:
                replaced = self._replace_global(name, original[name], original)
                if replaced is not original[name]:
                    own[name] = replaced
        if function.__defaults__ is not None:
            defaults = (self.replace("a default", value) for value in function.__defaults__)
            copy.__defaults__ = tuple(defaults)
        if function.__kwdefaults__ is not None:
            copy.__kwdefaults__ = self._mapping(function.__kwdefaults__)
        return copy

    def _copy_globals(self, original: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a module's globals. Imports by functions with them lead to the host."""
        if id(original) not in self._globals:
            own = {**vars(builtins), "__import__": self._import}
            self._globals[id(original)] = {**original, "__builtins__": own}
        return self._globals[id(original)]

    def _import(
        self, name: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        try:
            found = self._counterpart(name) if level == 0 else None
            # Without names to import from a module, the first part of its path is bound.
            if found is not None and not names:
                found = self._counterpart(name.partition(".")[0])
        except _NoCounterpart as error:
            raise ImportError(str(error)) from None
        return builtins.__import__(name, scope, local, names, level) if found is None else found

    def _is_part(self, path: str) -> bool:
        """Return whether a module has a host module, is in one that has, or contains one."""
        return any(_is_below(path, each) or _is_below(each, path) for each, _ in self._modules)

    def _counterpart(self, path: str) -> Any:
        """Return the host module for one of the framework's modules; None for any other module.

        For a package that has none itself, but whose children have one (`cupyx`), it is an object
        with these children.
        """
        for module, host in self._modules:
            if _is_below(path, module):
                name = host + path[len(module) :]
                try:
                    return importlib.import_module(name)
                except Exception:
                    words = f"the module {path} has no counterpart {name}"
                    raise _NoCounterpart(words) from None
            if _is_below(module, path):
                found: Any = importlib.import_module(host)
                for child in reversed(module[len(path) + 1 :].split(".")):
                    found = types.SimpleNamespace(**{child: found})
                return found
        return None

    def _imported(self, name: str, value: Any) -> Any:
        """Return the host's counterpart of an object that comes from one of the modules."""
        homes = [_attribute(each, "__module__") for each in (value, type(value))]
        if not any(isinstance(home, str) and self._is_part(home) for home in homes):
            return _NONE
        known_as = [_attribute(value, "__name__"), _attribute(value, "name"), name]
        own = next(each for each in known_as if isinstance(each, str))
        for path, module in sys.modules.copy().items():
            if self._is_part(path) and _attribute(module, own) is value:
                try:
                    found = _attribute(self._counterpart(path), own)
                except _NoCounterpart:
                    continue
                if found is not _NONE:
                    return found
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise _NoCounterpart(f"{name} ({kind}) has no counterpart on the host")


def _is_below(path: str, parent: str) -> bool:
    """Return whether a module is another one, or inside of it."""
    return path == parent or path.startswith(f"{parent}.")


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, _NONE)
    except Exception:
        return _NONE


def _globals_of(value: Any) -> dict[str, Any] | None:
    """The globals of a function that is written in Python; None for any other object."""
    found = _attribute(value, "__globals__") if hasattr(value, "__code__") else None
    return found if isinstance(found, dict) else None


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names that code, and code inside it, refers to.

    Code that writes to a variable outside of itself cannot be copied.
    """
    import dis  # Only here: it takes a while.

    for step in dis.get_instructions(code):
        outside = step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars
        if outside or step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            words = "writes to a variable outside of it (global or nonlocal)"
            raise _NoCounterpart(f"{code.co_name} {words}")
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
