"""The parts of this package that its Rust code calls: modules, or functions that import one.

Rust finds them in ``_core._PARTS`` and names no module. The imports stand here, where people, type
checkers and programs that freeze a package see them. ``interpreter/package.rs`` says what Rust
calls of each part.
"""

from __future__ import annotations

from types import ModuleType

from . import _blocks, _core, _isolate, _tables, exceptions

__all__: list[str] = []


def _columns() -> ModuleType:
    from ._arrays import columns

    return columns


def _dynamo() -> ModuleType:
    from ._graphs import dynamo

    return dynamo


def _export() -> ModuleType:
    from ._declared import export

    return export


def _function() -> ModuleType:
    from ._declared import function

    return function


def _gradients() -> ModuleType:
    from ._graphs import gradients

    return gradients


def _ladder() -> ModuleType:
    from ._declared import ladder

    return ladder


def _lazy() -> ModuleType:
    from ._arrays import lazy

    return lazy


def _modes() -> ModuleType:
    from ._graphs import modes

    return modes


def _options() -> ModuleType:
    from ._declared import options

    return options


def _progress() -> ModuleType:
    from ._tools import progress

    return progress


def _room() -> ModuleType:
    from ._declared import room

    return room


def _steps() -> ModuleType:
    from ._declared import steps

    return steps


def _wrappers() -> ModuleType:
    from . import wrappers
    from ._arrays import adapters  # noqa: F401 - it registers the classes of other libraries

    return wrappers


_core._PARTS.update(
    blocks=_blocks, columns=_columns, dynamo=_dynamo, exceptions=exceptions,
    export=_export, function=_function, gradients=_gradients, ladder=_ladder, lazy=_lazy,
    modes=_modes, options=_options, progress=_progress, room=_room, steps=_steps,
    tables=_tables, wrappers=_wrappers,
)  # fmt: skip
_tables.each(lambda framework: _isolate.watch(_core._isolated(framework["name"])))
