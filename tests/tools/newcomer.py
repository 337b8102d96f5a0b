"""Add tables as a newcomer does: from the sdist, with ``python -m arraybridge add``.

    python tests/tools/newcomer.py --maturin .venv/bin/maturin --python ENVIRONMENT/bin/python NAME

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
    parser.add_argument("--maturin", required=True)
    parser.add_argument("--python", required=True, help="an interpreter that has arraybridge")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "newcomer")
    parser.add_argument("tables", nargs="+")
    options = parser.parse_args()
    out = options.out.resolve()
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.abspath(options.maturin), "sdist", "-o", folder]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if made.returncode:
            print(made.stderr, file=sys.stderr)
            return 1
        (archive,) = Path(folder).glob("*.tar.gz")
        unpack(archive, out)
    # What an earlier run added is not kept.
    python = [os.path.abspath(options.python), "-m"]
    subprocess.run([*python, "pip", "uninstall", "--quiet", "--yes", "arraybridge-rs"], check=True)
    tables = [os.path.abspath(each) if each.endswith(".toml") else each for each in options.tables]
    command = [*python, "arraybridge", "add", *tables, "--source", str(out)]
    return subprocess.run(command, cwd=out).returncode


if __name__ == "__main__":
    sys.exit(main())
