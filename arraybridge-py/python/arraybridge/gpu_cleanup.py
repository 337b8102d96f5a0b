"""Clear the device memory caches of all frameworks, or of one.

Each framework has a function ``cleanup_<framework>_gpu(device_id=None)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._core import cleanup_all_gpu_frameworks, cleanup_framework
from ._tables import BUILT, each

__all__ = [
    "MEMORY_TYPE_CLEANUP_REGISTRY",
    "cleanup_all_gpu_frameworks",
    *(f"cleanup_{framework}_gpu" for framework in BUILT),
]


def _cleanup(framework: str, title: str) -> Callable[[int | None], dict[str, list[int]]]:
    def cleanup(device_id: int | None = None) -> dict[str, list[int]]:
        return cleanup_framework(device_id, memory_type=framework)

    cleanup.__name__ = cleanup.__qualname__ = f"cleanup_{framework}_gpu"
    cleanup.__doc__ = (
        f"Clear the device memory caches of {title}, like ``cleanup_all_gpu_frameworks``."
    )
    return cleanup


MEMORY_TYPE_CLEANUP_REGISTRY: dict[str, Callable[..., dict[str, list[int]]]] = {}
"""For each framework, a function of ``device_id=None`` that clears its caches."""


def _add(framework: Mapping[str, Any]) -> None:
    function = _cleanup(framework["name"], framework["title"])
    MEMORY_TYPE_CLEANUP_REGISTRY[framework["name"]] = globals()[function.__name__] = function


each(_add)
