"""Recognise out-of-memory errors, and retry a call with cleared caches.

Declared functions retry by themselves, in more ways (see ``arraybridge.decorators``).

>>> from arraybridge.oom_recovery import is_oom_error
>>> is_oom_error(MemoryError()), is_oom_error(RuntimeError("out of memory"))
(True, False)
"""

from __future__ import annotations

from typing import Any

from . import compat
from ._core import execute_with_oom_recovery, is_oom_error

__all__ = ["execute_with_oom_recovery", "is_oom_error"]


def __getattr__(name: str) -> Any:
    return compat.find(__name__, name)
