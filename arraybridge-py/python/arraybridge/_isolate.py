"""Shared libraries whose symbols collide with those of another module.

TensorFlow exports LLVM's symbols without a version (tensorflow#119254). PoCL's own LLVM binds to
them if it is loaded later, and the process crashes when OpenCL devices are listed for the first
time. A library that is opened with ``RTLD_DEEPBIND`` before this looks up its symbols in itself
first. A framework's table lists such libraries under ``isolate``: those of the system by name,
those in a package by their path in it, since the dynamic linker does not look there.

They are opened when the program imports what loads them: the framework for a library of the system,
and the package of any other.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

__all__: list[str] = []


def watch(isolated: Sequence[tuple[str, str, str]]) -> None:
    """Watch the imports from now on.

    ``isolated`` has the module of a framework, the library, and the module with the same symbols.
    """
    if sys.platform == "linux" and isolated:
        sys.meta_path.insert(0, ImportWatch(isolated))  # type: ignore[arg-type]


class ImportWatch:
    """A finder in ``sys.meta_path``. It sees each import first, and finds nothing itself."""

    def __init__(self, isolated: Sequence[tuple[str, str, str]]) -> None:
        # The libraries that come with a module, each with its rival.
        self._by_module: dict[str, list[tuple[str, str]]] = {}
        for module, library, rival in isolated:
            package, separator, _ = library.partition("/")
            found = self._by_module.setdefault(package if separator else module, [])
            found.append((library, rival))

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        for library, rival in self._by_module.get(name, ()):
            if rival in sys.modules:
                # The import itself says what is wrong with a package.
                with contextlib.suppress(Exception):
                    for path in files(library):
                        _open(path)


def files(library: str) -> Iterator[str]:
    """Yield the files of a package that match a path; the name of a library of the system."""
    package, separator, pattern = library.partition("/")
    if not separator:
        yield library
        return
    import glob
    from importlib.machinery import PathFinder

    # Not `importlib.util.find_spec`, which asks all finders, and so the one above.
    spec = PathFinder.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from sorted(glob.glob(f"{glob.escape(folder)}/{pattern}"))


def _open(path: str) -> None:
    import ctypes
    import os

    # A library that is not there is none that could collide.
    with contextlib.suppress(OSError):
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
