"""The tool that makes the environments, with uv and with pip."""

import ensurepip
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import bridges
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOOL = bridges.ROOT / "tests" / "tools" / "environment.py"


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """The tool, with no uv but one in `tmp_path`, and without options for pip."""
    spec = importlib.util.spec_from_file_location("environment", TOOL)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    for name in os.environ:
        if name.startswith(("PIP", "UV_")) or name in ("SSL_CERT_FILE", "ALL_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    return module


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_locked_versions_are_what_the_groups_ask_for(tool, version):
    assert version in tool.VERSIONS
    where = {"python_version": version}
    listed = map(Requirement, tool.CONSTRAINTS.read_text().splitlines()[1:])
    pins = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in listed
        if not pin.marker or pin.marker.evaluate(where)
    }
    for wanted in map(Requirement, [line for name in tool.LOCKED for line in tool.groups()[name]]):
        assert pins[canonicalize_name(wanted.name)] in wanted.specifier, wanted


def test_a_group_gets_the_locked_versions(tool, monkeypatch):
    monkeypatch.setattr(tool, "VERSIONS", (f"{sys.version_info[0]}.{sys.version_info[1]}",))
    option = ("--constraint", tool.CONSTRAINTS)
    assert tool.constraints_of("test", sys.executable) == option
    assert tool.constraints_of("oldest", sys.executable) == ()
    monkeypatch.setenv("NEWEST", "1")
    assert tool.constraints_of("test", sys.executable) == ()
    monkeypatch.setenv("NEWEST", "0")
    monkeypatch.setattr(tool, "VERSIONS", ("2.7",))
    assert tool.constraints_of("test", sys.executable) == ()


def program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_uv_is_told_what_pip_is_told(tool, monkeypatch, tmp_path):
    program(tmp_path / "uv", f"echo {bridges.ROOT}/cache")
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://a/simple\ntimeout = 5\ncert = /c\nproxy = http://p\n"
        "[install]\nindex-url = https://b/simple\ntrusted-host = b\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://d/simple https://e/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} {tmp_path}/nothing https://f")
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    monkeypatch.setenv("SSL_CERT_FILE", "/other")
    monkeypatch.setenv("UV_INSECURE_HOST", "own")
    found = tool.variables_of_uv()
    assert {name: found.get(name) for name in {*tool.VARIABLES.values(), "UV_CACHE_DIR"}} == {
        "UV_DEFAULT_INDEX": "https://b/simple", "UV_INDEX": "https://d/simple https://e/simple",
        "UV_FIND_LINKS": f"{tmp_path},https://f", "UV_HTTP_TIMEOUT": "7", "UV_INSECURE_HOST": "own",
        "SSL_CERT_FILE": "/c", "ALL_PROXY": "http://p", "UV_CONSTRAINT": None, "UV_OFFLINE": None,
        "UV_CACHE_DIR": None,
    }  # fmt: skip


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="the only file system")
def test_the_cache_is_on_the_file_system_of_the_environments(tool, monkeypatch, tmp_path):
    program(tmp_path / "uv", "echo /dev/shm/nothing/uv")
    assert tool.variables_of_uv()["UV_CACHE_DIR"] == str(tool.BUILD / "uv-cache")
    tool.variables_of_uv.cache_clear()
    monkeypatch.setenv("UV_CACHE_DIR", "/dev/shm/nothing")
    assert tool.variables_of_uv()["UV_CACHE_DIR"] == "/dev/shm/nothing"


def test_a_shim_without_a_uv_is_passed_over(tool, tmp_path):
    program(tmp_path / "uv", "exit 127")
    program(tool.BUILD / "uv" / "bin" / "uv", "exit 0")
    assert tool.uv() == str(tool.BUILD / "uv" / "bin" / "uv")


@pytest.mark.parametrize("refused", ["venv", "pip"])
def test_pip_is_used_where_uv_cannot_be_had(tool, monkeypatch, capfd, refused):
    monkeypatch.setattr(tool, "runs", lambda *words: refused not in words and "venv" in words)
    assert tool.uv() is None
    assert "uv cannot be installed, so pip is used" in capfd.readouterr().out


def test_pip_takes_the_place_of_a_uv_that_fails(tool, tmp_path):
    program(tmp_path / "uv", 'test "$1" != pip || exit 3')
    program(tmp_path / "env" / "bin" / "python", 'echo "$@" >>"$0.log"')
    command = [sys.executable, TOOL, "install", tmp_path / "env", "thing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "uv failed, so pip takes its place" in done.stderr
    assert (
        "-m pip install --no-compile --quiet thing" in (tmp_path / "env/bin/python.log").read_text()
    )


def thing(folder: Path, modules: dict[str, str]) -> Path:
    """Build a wheel, always of the same version, name and time."""
    info = "thing-1.0.dist-info"
    files = {
        **{f"thing/{name}.py": code for name, code in modules.items()},
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "thing-1.0-py3-none-any.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    os.utime(wheel.filename, (0, 0))
    return Path(wheel.filename)


@pytest.mark.parametrize("pip", ["", "1"], ids=["uv", "pip"])
def test_an_environment_has_what_was_built_last(tool, monkeypatch, tmp_path, pip):
    paths = [os.environ["PATH"], str(bridges.ROOT / "build" / "uv" / "bin"), os.defpath]
    monkeypatch.undo()
    monkeypatch.setenv("PATH", ":".join([*paths, os.environ["PATH"]]))
    if not pip and not tool.runs("uv", "--version"):
        pytest.skip("there is no uv")
    (bundled,) = Path(ensurepip.__file__).parent.glob("_bundled")
    monkeypatch.setenv("PIP", pip)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} {bundled}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    first, beside = tmp_path / "first", tmp_path / "beside"

    def run(*words):
        subprocess.run([sys.executable, TOOL, *words], check=True)

    def value(folder, code="import thing.new as found; print(found.value)"):
        command = [folder / "bin" / "python", "-c", code]
        return subprocess.check_output(command, text=True).strip()

    thing(tmp_path, {"__init__": "", "old": "", "new": "value = 1"})
    run("make", first, "thing==1.0")
    assert value(first) == "1"
    assert ("\nuv = " in (first / "pyvenv.cfg").read_text()) == (not pip)
    for number in ("2", "3"):
        run("install", first, thing(tmp_path, {"__init__": "", "new": f"value = {number}"}))
        assert value(first) == number
    assert value(first, "import importlib.util as u; print(u.find_spec('thing.old'))") == "None"
    run("make", beside, "pip", "--beside", first)
    assert value(beside) == "3"
