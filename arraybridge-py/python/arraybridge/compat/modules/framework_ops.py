"""A read-only view of the table of frameworks. Use ``arraybridge.frameworks()``."""

from typing import Any

from arraybridge.compat import find


def __getattr__(name: str) -> Any:
    return find("arraybridge", name)
