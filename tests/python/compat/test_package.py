"""This package and the original have one name, and cannot share a folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import arraybridge as ab
import pytest
from arraybridge import _core, _package

SOURCES = Path(ab.__file__).parent
# The `__init__` of the original.
THEIR_INIT = '__version__ = "0.5.2"\n\n\ndef __getattr__(name):\n    raise AttributeError(name)\n'


@pytest.fixture
def site(tmp_path):
    """A folder with this package, as pip leaves it."""
    package = tmp_path / "arraybridge"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (core,) = SOURCES.glob("_core*.so")
    (package / core.name).symlink_to(core)
    files = [path.relative_to(tmp_path).as_posix() for path in package.rglob("*.py")]
    record(tmp_path, "arraybridge-rs", "0.1.0", files)
    return tmp_path


def record(site, name, version, files):
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def install_the_original(site, written=("__init__.py", "libraries.py")):
    record(site, "arraybridge", "0.5.2", [f"arraybridge/{name}" for name in written])
    for name in written:
        (site / "arraybridge" / name).write_text(THEIR_INIT)


def run(site, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def refused(done, why):
    message = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and message.startswith("ImportError: arraybridge: "), done.stderr
    assert why in message and "-m pip uninstall --yes arraybridge, and then" in message
    assert "-m pip install --force-reinstall --no-deps arraybridge-rs" in message


def test_an_import_beside_files_of_the_original_is_refused(site):
    assert run(site, "-c", "import arraybridge").returncode == 0
    init = site / "arraybridge" / "__init__.py"
    ours = init.read_text()
    install_the_original(site)
    init.write_text(ours)
    refused(run(site, "-c", "import arraybridge"), "arraybridge/libraries.py is of the latter")
    # The original's own module is gone, or its files are in another folder.
    (site / "arraybridge" / "libraries.py").unlink()
    assert run(site, "-c", "import arraybridge").returncode == 0


@pytest.mark.parametrize("place", ["folder", "zip"])
def test_an_import_without_the_extension_module_says_why(site, place):
    if place == "zip":
        site = shutil.make_archive(site / "packed", "zip", site, "arraybridge")
    else:
        (site / "arraybridge" / Path(_core.__file__).name).unlink()
    done = run(site, "-c", "import arraybridge")
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ImportError: arraybridge: ") and "circular" not in message, message
    assert ("cannot be imported from a zip file" in message) == (place == "zip"), message
    assert ("has no _core" in message) == (place == "folder"), message


def test_commands_are_refused_where_the_original_came_later_and_after_it_went(site):
    install_the_original(site)
    refused(run(site, "-m", "arraybridge", "doctor"), "of two packages")
    for name in ("__init__.py", "libraries.py"):
        (site / "arraybridge" / name).unlink()
    shutil.rmtree(site / "arraybridge-0.5.2.dist-info")
    # Without the package that these tests use, which is complete.
    refused(run(site, "-S", "-m", "arraybridge", "doctor"), "has no __init__.py")


def test_the_metadata_is_not_asked_where_the_original_is_not_installed(site):
    code = "import sys, arraybridge; print('importlib.metadata' in sys.modules)"
    assert run(site, "-c", code).stdout == "False\n"


def test_the_original_in_another_folder_of_the_path_is_found(tmp_path, monkeypatch):
    assert _package.about() == {
        "distribution": "arraybridge-rs", "folder": str(SOURCES), "original": None,
    }  # fmt: skip
    record(tmp_path, "arraybridge", "0.5.2", ["arraybridge/__init__.py"])
    monkeypatch.syspath_prepend(tmp_path)
    assert _package.about()["original"] == "0.5.2"
