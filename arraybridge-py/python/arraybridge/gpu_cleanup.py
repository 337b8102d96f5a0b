"""Clear the device memory caches of all frameworks, or of one.

Each framework has a function ``cleanup_<framework>_gpu(device_id=None)``.
"""

from __future__ import annotations

from collections.abc import Callable

from ._core import cleanup_all_gpu_frameworks, cleanup_framework, frameworks

__all__ = ["MEMORY_TYPE_CLEANUP_REGISTRY", "cleanup_all_gpu_frameworks"]


def _cleanup(framework: str, title: str) -> Callable[[int | None], dict[str, list[int]]]:
    def cleanup(device_id: int | None = None) -> dict[str, list[int]]:
        return cleanup_framework(device_id, memory_type=framework)

    cleanup.__name__ = cleanup.__qualname__ = f"cleanup_{framework}_gpu"
    cleanup.__doc__ = (
        f"Clear the device memory caches of {title}, like ``cleanup_all_gpu_frameworks``."
    )
    return cleanup


MEMORY_TYPE_CLEANUP_REGISTRY: dict[str, Callable[..., dict[str, list[int]]]] = {
    framework["name"]: _cleanup(framework["name"], framework["title"]) for framework in frameworks()
}
"""For each framework, a function of ``device_id=None`` that clears its caches."""

for _function in MEMORY_TYPE_CLEANUP_REGISTRY.values():
    globals()[_function.__name__] = _function
    __all__ += [_function.__name__]
