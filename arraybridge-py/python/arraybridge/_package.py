"""Find out whether this package can work where its files are.

The original package is called ``arraybridge`` too. If pip installs one over the other, modules of
one import modules of the other, and if it then uninstalls the other, modules of both are gone. And
the extension module has to be there for this Python, in a folder. An import of this module raises
``ImportError`` otherwise.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator

__all__: list[str] = []

NAME = "arraybridge-rs"
ORIGINAL = "arraybridge"
FOLDER = os.path.dirname(os.path.abspath(__file__))
SITE = os.path.dirname(FOLDER)
# After a change of the files, pip takes the package for installed.
REPAIR = (
    f"{sys.executable} -m pip uninstall --yes {ORIGINAL}, and then: "
    f"{sys.executable} -m pip install --force-reinstall --no-deps {NAME}"
)


def _refuse_a_mixture() -> None:
    """Raise ``ImportError`` if files of the original are in this folder, or ours are gone."""
    try:
        is_there = any(name.startswith(f"{ORIGINAL}-") for name in os.listdir(SITE))
    except OSError:  # as in an archive
        is_there = False
    # The metadata takes milliseconds to import, and is asked where it may have an answer.
    for version, file in _theirs() if is_there else ():
        raise ImportError(
            f"arraybridge: {FOLDER} has files of two packages, {NAME} and the Python package "
            f"{ORIGINAL} {version} ({file} is of the latter); neither works so. To use {NAME}, "
            f"run: {REPAIR}"
        )
    if getattr(sys.modules[__package__], "__file__", None) is None:
        raise ImportError(
            f"arraybridge: {FOLDER} has no __init__.py; it went with the Python package "
            f"{ORIGINAL}. To use {NAME}, run: {REPAIR}"
        )


def _theirs() -> Iterator[tuple[str, str]]:
    """The version of the original, with each of its files here that is not one of ours."""
    from importlib import metadata

    def files(name: str) -> Iterator[tuple[str, str]]:
        for found in metadata.distributions(name=name, path=[SITE]):
            for file in found.files or ():
                if file.parts[0] == ORIGINAL and file.suffix == ".py":
                    yield found.version, file.as_posix()

    ours = {file for _, file in files(NAME)}
    for version, file in files(ORIGINAL):
        if file not in ours and os.path.exists(os.path.join(SITE, file)):
            yield version, file


def _refuse_a_missing_core() -> None:
    """Raise ``ImportError`` if Python cannot find the extension module beside this file."""
    try:
        importlib.import_module(f"{__package__}._core")
    except ModuleNotFoundError as error:
        if error.name != f"{__package__}._core":
            raise
        from importlib.machinery import EXTENSION_SUFFIXES
        from zipimport import zipimporter

        why = f"{FOLDER} has no _core{EXTENSION_SUFFIXES[0]}, its extension module for this Python"
        if isinstance(__spec__.loader, zipimporter):
            why = f"an extension module cannot be imported from a zip file, as {FOLDER} is in"
        raise ImportError(
            f"arraybridge: {why}; to install it in a folder, run: "
            f"{sys.executable} -m pip install --force-reinstall {NAME}"
        ) from None


def about() -> dict[str, str | None]:
    """Return the name and the folder of this package, and the version of the original package.

    The original's version is None if it is not installed, also in another folder of the path.
    """
    from importlib import metadata

    original = next((found.version for found in metadata.distributions(name=ORIGINAL)), None)
    return {"distribution": NAME, "folder": FOLDER, "original": original}


_refuse_a_mixture()
_refuse_a_missing_core()
