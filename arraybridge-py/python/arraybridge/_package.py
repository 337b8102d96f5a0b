"""Find out whether the folder of this package has files of the original package too.

Both are called ``arraybridge``. If pip installs one over the other, modules of one import modules
of the other. An import of this module raises ``ImportError`` then.
"""

from __future__ import annotations

import os
import sys

__all__: list[str] = []

NAME = "arraybridge-rs"
ORIGINAL = "arraybridge"
FOLDER = os.path.dirname(os.path.abspath(__file__))
# The original's versions 0.2 to 0.5 have one of these modules, and none of them is in this folder.
THEIRS = ("framework_config.py", "libraries.py", "converters_registry.py")


def refuse_a_mixture() -> None:
    """Raise ``ImportError`` if files of the original package are in this folder."""
    for name in THEIRS:
        if os.path.exists(os.path.join(FOLDER, name)):
            raise ImportError(
                f"arraybridge: {FOLDER} has files of two packages, {NAME} and the Python package "
                f"{ORIGINAL} ({name} is of the latter); neither works so. To use this one, run: "
                f"{sys.executable} -m pip uninstall --yes {ORIGINAL} {NAME}, and then: "
                f"{sys.executable} -m pip install {NAME}"
            )


def about() -> dict[str, str | None]:
    """Return the name and the folder of this package, and the version of the original's files.

    The original's version is None if pip did not install it into the same folder.
    """
    from importlib import metadata

    original = None
    for found in metadata.distributions(name=ORIGINAL, path=[os.path.dirname(FOLDER)]):
        original = found.version
    return {"distribution": NAME, "folder": FOLDER, "original": original}


refuse_a_mixture()
