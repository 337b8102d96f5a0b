from collections.abc import Callable
from typing import TypeVar

__all__ = ["execute_with_oom_recovery", "is_oom_error"]

_T = TypeVar("_T")

def is_oom_error(error: BaseException, memory_type: str | None = None) -> bool:
    """Whether an exception says that the memory of a framework, or of this one, ran out.

    The class of the exception decides, with its error code or with words that only the framework's
    allocator prints.
    """

def execute_with_oom_recovery(func: Callable[[], _T], memory_type: str, max_retries: int = 2) -> _T:
    """Call ``func``, and again after clearing every cache when the framework's memory ran out."""

def _execute_with_oom_recovery(
    func: Callable[[], _T], memory_type: str, max_retries: int = 2
) -> _T: ...
def _is_oom_error(error: BaseException, memory_type: str | None = None) -> bool: ...
