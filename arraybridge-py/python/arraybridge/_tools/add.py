"""Build this package with more tables, and install it: ``python -m arraybridge add my.toml``.

Tables are compiled, so this needs the sources, Rust and a linker. The checks that need none of them
come first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from arraybridge import __version__, _core

from . import schema

__all__ = ["run"]

DISTRIBUTION = "arraybridge-rs"
VARIABLE = "ARRAYBRIDGE_FRAMEWORKS"
NEEDS = "This compiles arraybridge: some minutes of processor time, 1 GB of disk and the network."
# Where the sources say which Rust they need.
RUST_VERSION = re.compile(r'^rust-version = "([\d.]+)"', re.MULTILINE)


class Refused(Exception):  # noqa: N818
    """The command cannot be carried out, for the reasons in the message."""


def sources(source: str | None, folder: Path) -> Path:
    """Return the folder of the sources: the given one, or that of an sdist, given or from pip."""
    found = Path(source).resolve() if source else download(folder)
    if found.is_file():
        with tarfile.open(found) as archive:
            archive.extractall(folder / "sdist", filter="data")
        (found,) = (folder / "sdist").iterdir()
    if not (found / "pyproject.toml").is_file():
        raise Refused(f"{found} is not a source of {DISTRIBUTION}: it has no pyproject.toml")
    project = tomllib.loads((found / "pyproject.toml").read_text())
    if project.get("project", {}).get("name") != DISTRIBUTION:
        raise Refused(f"{found} is not a source of {DISTRIBUTION}")
    return found


def download(folder: Path) -> Path:
    """Download the sdist of this version with pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", ":all:", "--dest", str(folder), f"{DISTRIBUTION}=={__version__}"]
    if subprocess.run(command).returncode:
        raise Refused(
            f"pip finds no sdist of {DISTRIBUTION} {__version__}; give the sources with "
            "--source: a folder (a checkout) or an sdist (.tar.gz)"
        )
    (found,) = folder.glob("*.tar.gz")
    return found


def lacking(source: Path) -> list[str]:
    """Return the missing requirements of the build."""
    wanted = RUST_VERSION.search((source / "Cargo.toml").read_text())
    found = []
    if shutil.which("cargo") is None:
        found.append("Rust is not installed; see https://rustup.rs")
    elif wanted:
        shown = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout
        version = re.search(r"\d+\.\d+", shown)
        if version is None or _number(version[0]) < _number(wanted[1]):
            found.append(f"Rust {wanted[1]} is needed; found: {shown.strip() or 'none'}")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        found.append("a C compiler is needed for linking; install gcc or clang")
    return found


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def find(table: str, source: Path | None) -> Path:
    """Return a file of tables, from its path or from the name of one in the sources."""
    path = Path(table)
    if path.is_file():
        return path.resolve()
    if source is not None and (source / "tables" / f"{table}.toml").is_file():
        return source / "tables" / f"{table}.toml"
    shipped = sorted(path.stem for path in (source / "tables").glob("*.toml")) if source else []
    more = f"; tables in the sources: {', '.join(shipped)}" if shipped else ""
    raise Refused(f"{table} is not a file{more}")


def names_of(files: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Check the files. Return the names of their tables, and the files that were added before.

    Tables that are added again take the place of those.
    """
    problems: list[str] = []
    texts: dict[str, str] = {}
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            problems.append(f"{path.name} is not text in UTF-8")
            continue
        # Two files can have one name.
        texts[path.name if path.name not in texts else str(path)] = text
    problems = problems or schema.mistakes(texts)
    if problems:
        raise Refused("\n".join(problems))
    names = [name for text in texts.values() for name in tomllib.loads(text)]
    if not names:
        raise Refused(f"{', '.join(texts)} has no tables; add one for each framework")
    kept = [text for text in _core._TABLES[1:] if not set(tomllib.loads(text)) & set(names)]
    # The build gets these as well.
    before = {f"[{', '.join(tomllib.loads(text))}], added before": text for text in kept}
    problems = schema.mistakes(before | texts) if before else []
    if problems:
        raise Refused("\n".join(problems))
    return names, kept


def run(tables: Sequence[str], source: str | None, dry_run: bool) -> int:
    """Build and install. Return the exit status."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            # A mistake in an existing file is reported before the download.
            if all(Path(table).is_file() for table in tables):
                names_of([Path(table) for table in tables])
            elif dry_run and source is None:
                named = next(table for table in tables if not Path(table).is_file())
                raise Refused(f"{named} is not a file; the name of a table needs --source")
            if dry_run and source is None:
                print("The tables are right, as far as a check without a build can tell.")
                return 0
            found = sources(source, folder)
            files = [find(table, found) for table in tables]
            names, kept = names_of(files)
            problems = lacking(found)
            if problems:
                raise Refused("\n".join(problems))
        except Refused as refused:
            print(refused, file=sys.stderr)
            return 1
        before = [folder / f"kept{number}.toml" for number in range(len(kept))]
        for file, text in zip(before, kept, strict=True):
            file.write_text(text, encoding="utf-8")
        listed = [*before, *files]
        print(f"tables: {', '.join(names)}, besides {len(before)} added before")
        print(f"{NEEDS} The sources are {found}.", flush=True)
        return 0 if dry_run else _install(found, listed, names)


def _install(source: Path, files: Sequence[Path], names: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pip", "install", "--force-reinstall", "--no-deps"]
    variables = {**os.environ, VARIABLE: os.pathsep.join(map(str, files))}
    status = subprocess.run([*command, str(source)], env=variables).returncode
    if status == 0:
        print(f"Now run: python -m arraybridge check {' '.join(names)}")
    return status
