"""`make wheels`, with a maturin that only makes the files."""

import subprocess
import sys
from pathlib import Path

import bridges
import pytest


@pytest.fixture
def wheels(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(bridges.ROOT / "tests" / "tools")
    import wheels

    monkeypatch.setattr(sys, "argv", ["wheels.py", "--out", str(tmp_path / "out")])
    return wheels


def test_a_wheel_that_no_cpython_takes_is_built_and_not_tried(wheels, monkeypatch, capfd):
    built, tried = [], []

    def run(command, **_):
        out = Path(command[command.index("-o") + 1])
        out.mkdir(exist_ok=True)
        if command[1] == "sdist":
            (out / "arraybridge_rs-0.1.0.tar.gz").touch()
            return
        python = command[command.index("-i") + 1]
        tag = next(tag for tag, oldest, _, _ in wheels.WHEELS if python == oldest)
        (out / f"arraybridge_rs-0.1.0-{tag}-linux.whl").touch()
        built.append(tag)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(wheels, "interpreters", lambda: {wheels.Version(3, 11): "python3.11"})
    monkeypatch.setattr(wheels, "smoke", lambda package, python: tried.append(package.name))
    assert wheels.main() == 0
    assert built == [tag for tag, *_ in wheels.WHEELS]
    assert tried == ["arraybridge_rs-0.1.0-cp311-cp311-linux.whl", "arraybridge_rs-0.1.0.tar.gz"]
    assert capfd.readouterr().out.count("it is built, and not tried") == 3
