"""Import modules in the given order, without arraybridge's protection. ``doctor --full`` starts it.

The package itself is imported by ``python -m``, but it imports no framework and prepares nothing.
"""

from __future__ import annotations

import importlib
import sys

__all__: list[str] = []

if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
