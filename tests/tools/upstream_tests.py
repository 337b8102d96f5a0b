"""Run the original package's own tests with this package.

    python tests/tools/upstream_tests.py --sdists FOLDER

FOLDER has the sdists of arraybridge. The tests that fail must be those that
tests/upstream/failures.toml lists with a reason. The status is 1 otherwise.

A name that a module of the tests imports and this package does not have is replaced by a class that
can do nothing, so that only the tests that use it fail.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = ROOT / "tests" / "upstream" / "failures.toml"
VERSIONS = ["0.2.8", "0.2.11", "0.3.8", "0.5.2"]
# pyclesperanto crashes if it is imported after TensorFlow.
PYTEST = """
import ast, importlib, pathlib, sys, types
try:
    import pyclesperanto
except ImportError:
    pass

class Missing:
    _thread_streams = None  # what the fixtures of 0.5.2 replace for each test

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("this package does not have it")

for file in pathlib.Path(sys.argv[1]).parent.glob("*.py"):
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("arraybridge"):
            try:
                module = importlib.import_module(node.module)
            except ModuleNotFoundError:
                module = sys.modules[node.module] = types.ModuleType(node.module)
            for name in (alias.name for alias in node.names):
                if not hasattr(module, name):
                    setattr(module, name, type(name, (Missing,), {}))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def unpack(sdists: Path, version: str, folder: Path) -> Path:
    """The folder of a version's tests."""
    with tarfile.open(sdists / f"arraybridge-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"arraybridge-{version}" / "tests"


def outcomes(module: Path, report: Path) -> dict[str, bool]:
    """Which tests of a module pass. Skipped ones are left out."""
    options = ["-q", "-c", os.devnull, "--rootdir", str(module.parent), "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", PYTEST, str(module), *options, "--junit-xml", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not report.exists():
        return {f"{module.stem} (ended with {done.returncode})": False}
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        if case.find("skipped") is None:
            found[f"{module.stem}::{name}"] = (
                case.find("failure") is None and case.find("error") is None
            )
    return found


def check(version: str, found: dict[str, bool]) -> list[str]:
    """What the list of failures says wrongly about a version."""
    groups = tomllib.loads(LISTED.read_text())["failures"]
    listed = [test for group in groups for test in group["tests"] if version in group["versions"]]
    failed = [name for name, passed in found.items() if not passed]
    bad = [
        f"{version}: {name} fails, and is not listed"
        for name in failed
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in listed)
    ]
    return bad + [
        f"{version}: {pattern} is listed, and does not fail"
        for pattern in listed
        if not fnmatch.filter(failed, pattern)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sdists", type=Path, required=True)
    options = parser.parse_args()
    bad = []
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            found: dict[str, bool] = {}
            for module in sorted(unpack(options.sdists, version, Path(folder)).glob("test_*.py")):
                found |= outcomes(module, Path(folder) / f"{module.stem}.xml")
            wrong = check(version, found)
            print(*wrong, sep="\n", flush=True)
            bad += wrong
            print(f"{version}: {sum(found.values())} of {len(found)} tests pass", flush=True)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
