"""Giving cached device memory back, for all frameworks or for one.

Beside what ``__all__`` names there is a function ``cleanup_<framework>_gpu(device_id=None)`` for
every framework of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ._core import cleanup_all_gpu_frameworks, cleanup_framework, frameworks

__all__ = ["MEMORY_TYPE_CLEANUP_REGISTRY", "cleanup_all_gpu_frameworks"]

MEMORY_TYPE_CLEANUP_REGISTRY: dict[str, Callable[..., dict[str, list[int]]]] = {
    framework["name"]: partial(cleanup_framework, memory_type=framework["name"])
    for framework in frameworks()
}
"""For each framework, a function of ``device_id=None`` that clears what it caches."""

for _name, _cleanup in MEMORY_TYPE_CLEANUP_REGISTRY.items():
    globals()[f"cleanup_{_name}_gpu"] = _cleanup
    __all__ += [f"cleanup_{_name}_gpu"]
