"""Begin an extension crate: ``python -m arraybridge new my-filters``."""

from __future__ import annotations

import json
import keyword
import os
import re
import sys
from pathlib import Path
from string import Template

from arraybridge import __version__

__all__ = ["run"]

# The crates whose types the runtime shares with an extension.
PYO3, NDARRAY = "0.30", "0.17"

# A tree of templates: "module" in a path stands for the module's name, and "dot-" for a dot. The
# names end in ".in", so that no tool takes the files for those of this package.
TEMPLATES = Path(__file__).with_name("crate")


def run(name: str, source: str | None) -> int:
    """Write a crate to a new folder. Return the exit status."""
    folder = Path(name)
    if problem := _problem(folder, source):
        print(problem, file=sys.stderr)
        return 1
    runtime = f'version = "{__version__}"'
    if source:
        path = (Path(source) / "arraybridge-runtime").resolve()
        # A string of JSON is one of TOML.
        runtime = f"path = {json.dumps(path.as_posix(), ensure_ascii=False)}"
    words = {
        "name": folder.name,
        "module": folder.name.replace("-", "_"),
        "runtime": runtime,
        "version": __version__,
        "next": _next_minor(__version__),
        "ndarray": NDARRAY,
        "pyo3": PYO3,
    }
    for template in sorted(TEMPLATES.rglob("*.in")):
        file = template.relative_to(TEMPLATES).with_suffix("").as_posix()
        path = folder / file.replace("dot-", ".").replace("module", words["module"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(Template(template.read_text()).substitute(words))
        except OSError as error:
            print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
            return 1
        print(path)
    return 0


def _next_minor(version: str) -> str:
    """The first version that may have another C interface."""
    major, minor, *_ = version.split(".")
    return f"{major}.{int(minor) + 1}" if major == "0" else str(int(major) + 1)


def _problem(folder: Path, source: str | None) -> str | None:
    module = folder.name.replace("-", "_")
    if not re.fullmatch("[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        return (
            f"{folder.name!r} cannot name a crate and a module; use lower-case letters, digits and "
            "hyphens, and begin with a letter"
        )
    if module in sys.stdlib_module_names or module in ("arraybridge", "test", "tests"):
        return f"{module} is the name of another module; choose one of your own"
    try:
        is_there = os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir()))
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    if is_there:
        return f"{folder} already exists; choose another name, or remove it"
    if source and not (Path(source) / "arraybridge-runtime" / "Cargo.toml").is_file():
        return f"{source} has no arraybridge-runtime; give a checkout of arraybridge"
    return None
