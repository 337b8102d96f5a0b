from collections.abc import Callable
from typing import TypeVar

__all__ = ["execute_with_oom_recovery", "is_oom_error"]

_T = TypeVar("_T")

def is_oom_error(error: BaseException, memory_type: str | None = None) -> bool:
    """Return whether an exception means that a framework, or the given one, ran out of memory.

    The exception's class decides, together with its error code or with text that only the
    framework's allocator prints.

    >>> from arraybridge.oom_recovery import is_oom_error
    >>> is_oom_error(MemoryError(), "numpy")
    True
    """

def execute_with_oom_recovery(func: Callable[[], _T], memory_type: str, max_retries: int = 2) -> _T:
    """Call `func`, and retry it with all caches cleared if the framework runs out of memory.

    It is retried at most `max_retries` times. Raises what `func` raises in the end, and
    `ValueError` if the framework is unknown.

    >>> from arraybridge.oom_recovery import execute_with_oom_recovery
    >>> execute_with_oom_recovery(lambda: 42, "numpy")
    42
    """
