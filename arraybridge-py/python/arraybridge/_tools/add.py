"""Add tables to this environment: ``python -m arraybridge add my.toml``.

They are installed as a package of their own, which every process finds. With ``--build``, this
package is built with them instead. That needs the sources, Rust and a linker; the checks that need
none of them come first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zlib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from arraybridge import __version__, _core
from arraybridge._tables import GROUP, shipped

from . import schema

__all__ = ["remove", "run"]

DISTRIBUTION = "arraybridge-rs"
VARIABLE = "ARRAYBRIDGE_FRAMEWORKS"
NEEDS = "This compiles arraybridge: some minutes of processor time, 1 GB of disk and the network."
# The package in which a table is installed, before the name, and the folder of its file.
PACKAGE, FOLDER = "arraybridge-table-", "arraybridge_added_tables"
# Where the sources say which Rust they need.
RUST_VERSION = re.compile(r'^rust-version = "([\d.]+)"', re.MULTILINE)


class Refused(Exception):  # noqa: N818
    """The command cannot be carried out, for the reasons in the message."""


def sources(source: str | None, folder: Path) -> Path:
    """Return the folder of the sources: the given one, or that of an sdist, given or from pip."""
    if source is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(folder), f"{DISTRIBUTION}=={__version__}"]
        if subprocess.run(command).returncode:
            raise Refused(
                f"pip finds no sdist of {DISTRIBUTION} {__version__}; give the sources with "
                "--source: a folder (a checkout) or an sdist (.tar.gz)"
            )
        (found,) = folder.glob("*.tar.gz")
    else:
        found = Path(source).resolve()
    if found.is_file():
        try:
            with tarfile.open(found) as archive:
                archive.extractall(folder / "sdist", filter="data")
            (found,) = (folder / "sdist").iterdir()
        except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
            raise Refused(f"{found} is not an sdist of {DISTRIBUTION}: {error}") from None
    if not (found / "pyproject.toml").is_file():
        raise Refused(f"{found} is not a source of {DISTRIBUTION}: it has no pyproject.toml")
    project = tomllib.loads((found / "pyproject.toml").read_text())
    if project.get("project", {}).get("name") != DISTRIBUTION:
        raise Refused(f"{found} is not a source of {DISTRIBUTION}")
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


def names_of(files: Sequence[Path], imports: bool) -> tuple[list[str], list[str]]:
    """Check the files. Return the names of their tables, and the files that were added before.

    With ``imports``, the modules that the tables name are imported, to find their classes. Tables
    that are added again take the place of those.
    """
    problems: list[str] = []
    texts: dict[str, str] = {}
    for path in files:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            problems.append(f"{path.name} is not text in UTF-8")
            continue
        # Two files can have one name.
        texts[path.name if path.name not in texts else str(path)] = text
    problems = problems or schema.mistakes(texts, imports)
    if problems:
        raise Refused("\n".join(problems))
    names = [name for text in texts.values() for name in tomllib.loads(text)]
    if not names:
        raise Refused(f"{', '.join(texts)} has no tables; add one for each framework")
    kept = [text for text in _core._TABLES[1:] if not set(tomllib.loads(text)) & set(names)]
    # The build gets these as well.
    before = {f"[{', '.join(tomllib.loads(text))}], added before": text for text in kept}
    for distribution, _, file in shipped():
        text = Path(file).read_text(encoding="utf-8-sig") if file else ""
        if distribution not in map(_package, names) and text not in (*kept, *texts.values()):
            before[f"the package {distribution}"] = text
    problems = schema.mistakes(before | texts, imports) if before else []
    if problems:
        raise Refused("\n".join(problems))
    return names, kept


def _package(name: str) -> str:
    return PACKAGE + name.replace("_", "-")


def _add(files: Sequence[Path]) -> int:
    """Install each file as a package, in the place of one that was added before."""
    site = Path(sysconfig.get_path("purelib"))
    for file in files:
        names = list(tomllib.loads(file.read_text(encoding="utf-8-sig")))
        for name in names:
            _remove(name)
        package = _package(names[0])
        about = f"{package.replace('-', '_')}-{__version__}.dist-info"
        entries = "".join(f"{name} = {FOLDER}:{names[0]}.toml\n" for name in names)
        content = {
            f"{FOLDER}/{names[0]}.toml": file.read_text(encoding="utf-8-sig"),
            f"{about}/METADATA": (
                f"Metadata-Version: 2.1\nName: {package}\nVersion: {__version__}\n"
            ),
            f"{about}/INSTALLER": "arraybridge\n",
            f"{about}/entry_points.txt": f"[{GROUP}]\n{entries}",
        }
        record = "".join(f"{each},,\n" for each in (*content, f"{about}/RECORD"))
        try:
            for each, text in (content | {f"{about}/RECORD": record}).items():
                (site / each).parent.mkdir(exist_ok=True)
                (site / each).write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"{error}; use a virtual environment (python -m venv)") from None
        print(f"added {', '.join(names)} from {file}")
        print(f"Now run: python -m arraybridge check {' '.join(names)}")
    return 0


def _remove(name: str) -> bool:
    """Remove the package in which a table was added. Return whether there was one."""
    for distribution in metadata.distributions(name=_package(name)):
        files = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
        for file in files:
            file.unlink(missing_ok=True)
        for folder in {file.parent for file in files}:
            if not any(folder.iterdir()):
                folder.rmdir()
        return True
    return False


def remove(names: Sequence[str]) -> int:
    """Take tables that were added out of this environment. Return the exit status."""
    status = 0
    owners = {entry.name: distribution for distribution, entry, _ in shipped()}
    built_in = [name for text in _core._TABLES for name in tomllib.loads(text)]
    for name in names:
        owner = owners.get(name, "")
        added = owner.removeprefix(PACKAGE).replace("-", "_") if owner.startswith(PACKAGE) else ""
        if added and _remove(added):
            print(f"removed {name}")
            continue
        why = "no table has this name; see: python -m arraybridge frameworks"
        if name in built_in:
            why = "it is compiled into this build of arraybridge"
        if owner and not added:
            why = f"the package {owner} ships it; run: {sys.executable} -m pip uninstall {owner}"
        print(f"{name} cannot be removed: {why}", file=sys.stderr)
        status = 1
    return status


def run(tables: Sequence[str], source: str | None, dry_run: bool, build: bool) -> int:
    """Install tables, or build this package with them. Return the exit status."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            # A mistake in an existing file is reported before the download.
            if all(Path(table).is_file() for table in tables):
                names_of([Path(table) for table in tables], imports=not dry_run)
            elif source is None and (dry_run or not build):
                named = next(table for table in tables if not Path(table).is_file())
                raise Refused(f"{named} is not a file; the name of a table needs --source")
            if dry_run and source is None:
                print("The tables are right, as far as a check without imports can tell.")
                return 0
            found = sources(source, folder) if build or source else None
            files = [find(table, found) for table in tables]
            names, kept = names_of(files, imports=not dry_run)
            if found is None or not build:
                return 0 if dry_run else _add(files)
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
