"""Retries as the original package has them: it looks for words in the text of an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import cleanup_framework, is_oom_error  # type: ignore[import-not-found]
from ..types import SUPPORTED_MEMORY_TYPES

_TEXTS = ("out of memory", "out_of_memory", "memory exhausted", "cannot allocate memory")


def _is_oom_error(error: BaseException, memory_type: str) -> bool:
    """Return whether an exception means that memory ran out: also by its text alone."""
    if memory_type not in SUPPORTED_MEMORY_TYPES:
        return False
    text = str(error).lower()
    found = isinstance(error, MemoryError) or any(words in text for words in _TEXTS)
    return found or is_oom_error(error, memory_type)


def _clear_cache_for_memory_type(memory_type: str, device_id: int | None = None) -> None:
    """Clear the caches of a framework, if there is one of that name."""
    if memory_type in SUPPORTED_MEMORY_TYPES:
        cleanup_framework(device_id, memory_type=memory_type)


def _execute_with_oom_recovery(
    func_callable: Callable[[], Any], memory_type: str, max_retries: int = 2
) -> Any:
    """Call a function, and again with cleared caches while it runs out of memory."""
    for _ in range(max_retries):
        try:
            return func_callable()
        except Exception as error:
            if not _is_oom_error(error, memory_type):
                raise
        _clear_cache_for_memory_type(memory_type)
    return func_callable()
