"""The parts of this package that its Rust code calls: modules, or functions that import one.

Rust finds them in ``_core._PARTS`` and names no module. The imports stand here, where people, type
checkers and programs that freeze a package see them. ``interpreter/package.rs`` says what Rust
calls of each part.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

from . import _blocks, _core, _isolate, _tables, exceptions

__all__: list[str] = []

# The parts that are imported when they are first used.
LATER = (
    "columns", "dynamo", "export", "function", "gradients", "ladder", "lazy", "modes", "options",
    "progress", "room", "steps", "wrappers",
)  # fmt: skip


def _imported(part: str) -> ModuleType:
    module: ModuleType
    match part:
        case "columns":
            from ._arrays import columns as module
        case "dynamo":
            from ._graphs import dynamo as module
        case "export":
            from ._declared import export as module
        case "function":
            from ._declared import function as module
        case "gradients":
            from ._graphs import gradients as module
        case "ladder":
            from ._declared import ladder as module
        case "lazy":
            from ._arrays import lazy as module
        case "modes":
            from ._graphs import modes as module
        case "options":
            from ._declared import options as module
        case "progress":
            from ._tools import progress as module
        case "room":
            from ._declared import room as module
        case "steps":
            from ._declared import steps as module
        case "wrappers":
            from . import wrappers as module
            from ._arrays import adapters  # noqa: F401 - it registers other libraries' classes
    return module


_core._PARTS.update(blocks=_blocks, exceptions=exceptions, tables=_tables)
_core._PARTS.update({part: partial(_imported, part) for part in LATER})
_tables.each(lambda framework: _isolate.watch(_core._isolated(framework["name"])))
