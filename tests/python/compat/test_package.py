"""This package and the original have one name, and cannot share a folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import arraybridge as ab
import pytest
from arraybridge import _package

SOURCES = Path(ab.__file__).parent
# A module of the original, and its `__init__`.
THEIR_MODULE = "from arraybridge.types import MemoryType\n"
THEIR_INIT = '__version__ = "0.5.2"\n\n\ndef __getattr__(name):\n    raise AttributeError(name)\n'


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(SOURCES, tmp_path / "arraybridge", ignore=shutil.ignore_patterns("*.so"))
    return tmp_path


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", _package.THEIRS)
def test_an_import_over_files_of_the_original_is_refused(folder, module):
    (folder / "arraybridge" / module).write_text(THEIR_MODULE)
    done = run(folder, "-c", "import arraybridge")
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ImportError: arraybridge: ") and "files of two packages" in message
    assert "-m pip uninstall --yes arraybridge arraybridge-rs" in message
    assert "-m pip install arraybridge-rs" in message


def test_commands_are_refused_where_the_original_came_later(folder):
    (folder / "arraybridge" / "__init__.py").write_text(THEIR_INIT)
    (folder / "arraybridge" / "libraries.py").write_text(THEIR_MODULE)
    done = run(folder, "-m", "arraybridge", "doctor")
    assert done.returncode == 1 and "files of two packages" in done.stderr.splitlines()[-1]


def test_the_package_has_none_of_the_modules_that_tell_the_original():
    assert not [name for name in _package.THEIRS if (SOURCES / name).exists()]


def test_the_distribution_of_the_original_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(_package, "FOLDER", str(tmp_path / "arraybridge"))
    assert _package.about()["original"] is None
    metadata = tmp_path / "arraybridge-0.5.2.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: arraybridge\nVersion: 0.5.2\n")
    assert _package.about() == {
        "distribution": "arraybridge-rs",
        "folder": str(tmp_path / "arraybridge"),
        "original": "0.5.2",
    }
