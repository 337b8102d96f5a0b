"""What PyInstaller has to know of this package. It finds this folder by an entry point."""

from __future__ import annotations

import os

__all__ = ["hook_folders"]


def hook_folders() -> list[str]:
    """Return the folders of the hooks for PyInstaller."""
    return [os.path.dirname(__file__)]
