"""Import modules in the given order, without arraybridge's protection. ``doctor --full`` starts it.

The package itself is imported by ``python -m``, but it imports no framework and prepares nothing.
"""

from __future__ import annotations

import importlib
import sys

__all__: list[str] = []


def _import_all(modules: list[str]) -> None:
    for module in modules:
        importlib.import_module(module)


if __name__ == "__main__":
    _import_all(sys.argv[1:])
