"""Add tables as a newcomer does: from the sdist, with ``python -m arraybridge add``.

    .venv/bin/python tests/tools/newcomer.py [NAME...]

The tables go into `.venv-seventh`. Those of BUILT are compiled, the others loaded. Without names,
they are those of tests/seventh, and tables of the sdist for engines that `.venv-seventh` has.

The unpacked sdist stays where it is, and only files that changed are written again, so that cargo
compiles nothing twice.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "newcomer"
BUILT = ("tvm_ffi.toml", "fake_picky.toml")
ENGINES = ("onnxruntime", "openvino", "pyarrow", "pyarrow_tensor")


def files(folder: Path) -> dict[Path, bytes]:
    """What is in the files of a folder, but for the lock that a build may have changed."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "Cargo.lock"
    }


def unpack(archive: Path, folder: Path) -> None:
    """Make a folder like the archive, without a write to what is right."""
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(archive) as packed:
        packed.extractall(temporary, filter="data")
        (inner,) = Path(temporary).iterdir()
        wanted, there = files(inner), files(folder)
        for path in there.keys() - wanted.keys():
            (folder / path).unlink()
        for path, content in wanted.items():
            if there.get(path) != content:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        shutil.copy(inner / "Cargo.lock", folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*")
    given = parser.parse_args().tables
    seventh = sorted(str(each) for each in (ROOT / "tests" / "seventh").glob("*.toml"))
    tables = [os.path.abspath(each) if each.endswith(".toml") else each for each in given]
    tables = tables or [*seventh, *ENGINES]
    print("adding", *(os.path.relpath(each, ROOT) if "/" in each else each for each in tables))
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        command = [ROOT / ".venv" / "bin" / "maturin", "sdist", "-o", folder]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if made.returncode:
            print(made.stderr, file=sys.stderr)
            return 1
        (archive,) = Path(folder).glob("*.tar.gz")
        unpack(archive, OUT)
    # What an earlier run added is not kept.
    python = [ROOT / ".venv-seventh" / "bin" / "python", "-m"]
    subprocess.run([*python, "pip", "uninstall", "--quiet", "--yes", "arraybridge-rs"], check=True)
    # Cargo compiles what the builds of the tests have in common only once.
    folders = {"CARGO_TARGET_DIR": str(ROOT / "build" / "extension")}
    env = {**os.environ, **folders, "MATURIN_PEP517_ARGS": "--profile dev"}
    built = [each for each in tables if Path(each).name in BUILT]
    loaded = [each for each in tables if each not in built]
    add = [*python, "arraybridge", "add", "--source", OUT]
    for command in ([*add, "--build", *built], [*add, *loaded]):
        status = subprocess.run(command, cwd=OUT, env=env).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
