"""Make the environments of the tests, and install into them: with uv, whose files are shared.

    python tests/tools/environment.py make FOLDER GROUP [--beside OTHER] [--how OPTION...]
    python tests/tools/environment.py install FOLDER [--group GROUP] WHAT...
    python tests/tools/environment.py wheel FOLDER [--profile dev] [--into OTHER] [--crate PATH]...
    python tests/tools/environment.py lock

GROUP is one of `[dependency-groups]` in pyproject.toml, or a requirement. LOCKED groups get the
versions in tests/constraints.txt, which `lock` writes, and with NEWEST=1 the newest ones.

uv links the files of all environments to one cache. If there is none on the PATH, it is installed
from the index into build/uv. It gets the indexes, the certificates and the proxy that pip is
configured with. Where uv cannot be had or fails, and with PIP=1 in the environment, pip does it.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OLDEST = (3, 11)
# The groups whose versions are locked, and the CPythons for which they are.
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
LOCKED = ("test", "examples", "demo", "docs", "seventh", "dask", "ray", "frozen")
VERSIONS = ("3.11", "3.12", "3.13")
# Options of pip, and the variables by which uv is told the same.
VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST", "constraint": "UV_CONSTRAINT",
    "default-timeout": "UV_HTTP_TIMEOUT", "timeout": "UV_HTTP_TIMEOUT", "no-index": "UV_OFFLINE",
    "cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY",
}  # fmt: skip


class UvFailed(Exception):
    """What uv said was shown."""


def runs(*command: object) -> bool:
    """Whether a program is there and works: a shim on the PATH may have nothing behind it."""
    try:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run([str(part) for part in command], **quiet).returncode == 0
    except OSError:
        return False


@lru_cache
def uv() -> str | None:
    """The path of uv, or None if pip is asked for or uv cannot be had."""
    if on_or_off("PIP"):
        return None
    own = BUILD / "uv" / "bin" / "uv"
    for path in (shutil.which("uv"), str(own)):
        if path and runs(path, "--version"):
            return path
    print("installing uv into build/uv", flush=True)
    pip = [own.parent / "python", "-m", "pip", "install", "--quiet", "uv"]
    if runs(sys.executable, "-m", "venv", "--clear", BUILD / "uv") and runs(*pip):
        return str(own)
    print("uv cannot be installed, so pip is used, which takes longer and more space", flush=True)
    return None


def options_of_pip() -> dict[str, str]:
    """What pip is told by its files and by variables, by the long name of the option."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    listed = [sys.executable, "-m", "pip", "config", "list"]
    for line in subprocess.run(listed, capture_output=True, text=True).stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.partition(".")
        if section in found:
            found[section][option] = ast.literal_eval(value)
    variables = {
        name[4:].lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    }
    return {**found["global"], **found["install"], **variables}


@lru_cache
def variables_of_uv() -> dict[str, str]:
    """The environment of uv. What it is told itself comes before what pip is told."""
    options = options_of_pip()
    # pip passes over a folder that is not there.
    links = options.get("find-links", "").split()
    options["find-links"] = ",".join(at for at in links if "://" in at or Path(at).exists())
    told = {VARIABLES[name]: value for name, value in options.items() if name in VARIABLES}
    # pip trusts what the system trusts, and takes the newest version of any index.
    told |= {"UV_SYSTEM_CERTS": "1", "UV_INDEX_STRATEGY": "unsafe-best-match"}
    env = {**{name: value for name, value in told.items() if value}, **os.environ}
    if "cert" in options:
        env["SSL_CERT_FILE"] = options["cert"]
    # Files are linked only within one file system.
    shown = subprocess.run([uv(), "cache", "dir"], env=env, capture_output=True, text=True)
    place = Path(shown.stdout.strip()).absolute()
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    if "UV_CACHE_DIR" not in env and there.stat().st_dev != ROOT.stat().st_dev:
        env["UV_CACHE_DIR"] = str(BUILD / "uv-cache")
    return env


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Run a program, and say every 30 seconds that it still runs, unless it shows that itself."""
    bars = command[0] == uv() and "--quiet" not in command
    process = subprocess.Popen([str(part) for part in command], env=env)
    seconds = 0
    while process.poll() is None:
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            seconds += 30
            if not bars:
                print(f"... {seconds} s", flush=True)
    if process.returncode:
        if command[0] == uv():
            raise UvFailed
        sys.exit(process.returncode)


def install(folder: Path, *what: object, force: bool = False) -> None:
    """Install packages into an environment, with the arguments that pip and uv share."""
    python = folder / "bin" / "python"
    quiet = () if uv() and sys.stderr.isatty() and not force else ("--quiet",)
    if uv():
        # The wheel of a build is never wanted again, and would stay in the cache.
        forced = ("--no-cache", "--link-mode", "copy", "--reinstall", "--no-deps") if force else ()
        command = (uv(), "pip", "install", *quiet, "--python", python, *forced, *what)
    else:
        own = runs(python, "-m", "pip", "--version")
        pip = (python, "-m", "pip") if own else (sys.executable, "-m", "pip", "--python", python)
        forced = ("--force-reinstall", "--no-deps") if force else ()
        command = (*pip, "install", "--no-compile", *quiet, *forced, *what)
    run(*command, env=variables_of_uv() if uv() else None)


def on_or_off(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


@lru_cache
def groups() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]


def constraints_of(group: str, python: Path) -> tuple[object, ...]:
    """The option that keeps a group at the locked versions, if they are for this interpreter."""
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    version = subprocess.check_output([str(python), "-c", code], text=True).strip()
    is_locked = group in LOCKED and version in VERSIONS and not on_or_off("NEWEST")
    return ("--constraint", CONSTRAINTS) if is_locked else ()


def lock() -> None:
    """Write the newest versions with which all locked groups can be installed together."""
    wanted = "\n".join(line for group in LOCKED for line in groups()[group])
    options = ("--quiet", "--no-header", "--no-annotate", "--no-emit-package", "pip")
    platform = ("--python-platform", "x86_64-manylinux_2_34", "--upgrade")
    pins: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in.txt"), Path(folder, "out.txt")
        given.write_text(wanted)
        for version in VERSIONS:
            compiled = (uv(), "pip", "compile", *options, *platform, "--python-version", version)
            run(*compiled, "--output-file", out, given, env=variables_of_uv())
            for line in out.read_text().splitlines():
                pins.setdefault(line, []).append(version)

    def lines() -> Iterable[str]:
        yield "# Written by `make lock`: what tests/tools/environment.py installs on CPython " + (
            ", ".join(VERSIONS)
        )
        for pin in sorted(pins):
            where = " or ".join(f'python_version == "{version}"' for version in pins[pin])
            yield pin if len(pins[pin]) == len(VERSIONS) else f"{pin} ; {where}"

    CONSTRAINTS.write_text("\n".join(lines()) + "\n")


def site(python: Path) -> str:
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    return subprocess.check_output([str(python), "-c", code], text=True).strip()


def make(folder: Path, group: str, python: str, beside: Path | None, *how: str) -> None:
    """Make an environment, or bring it up to date."""
    print(f"installing {group} into {folder}: this can take minutes", flush=True)
    inside = folder / "bin" / "python"
    if not runs(inside, "-c", ""):
        base = beside / "bin" / "python" if beside else python
        shutil.rmtree(folder, ignore_errors=True)
        if uv():
            created = (uv(), "venv", "--quiet", "--seed", "--python", base, folder)
            run(*created, env=variables_of_uv())
        else:
            # Debian's interpreters have no pip of their own.
            bare = () if runs(base, "-c", "import ensurepip") else ("--without-pip",)
            run(base, "-m", "venv", *bare, folder)
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(groups().get(group, [group])) + "\n")
    constraints = constraints_of(group, inside)
    if not beside:
        return install(folder, *how, "-r", requirements, *constraints)
    # What it lacks is found in the other environment, which comes last in its path.
    others = (beside / "bin" / "python").absolute()
    Path(site(inside), "tests.pth").write_text(site(others) + "\n")
    if uv():
        # pip takes that for installed. uv takes the same versions, which cost no space.
        lock, uv_pip, env = folder / "requirements.lock", (uv(), "pip"), variables_of_uv()
        freeze = (*uv_pip, "freeze", "--python", others)
        frozen = subprocess.check_output(freeze, env=env, text=True).splitlines(True)
        lock.write_text("".join(each for each in frozen if " @ " not in each))
        compiled = (*uv_pip, "compile", "--quiet", "--python", inside, *constraints)
        run(*compiled, "-o", lock, requirements, env=env)
        requirements = lock
    install(folder, "-r", requirements, *constraints)


def wheel(folder: Path, into: Path, profile: str, crates: list[str]) -> None:
    """Build the wheel, or those of crates, for an environment, and install what was built."""
    out = BUILD / "wheels" / ("examples" if crates else into.name)
    shutil.rmtree(out, ignore_errors=True)
    programs = (folder / "bin").absolute()
    env = {**os.environ, "CARGO_TARGET_DIR": str(BUILD / "extension")}
    for crate in crates or [None]:
        print(f"building {crate or f'the wheel for {into}'}", flush=True)
        command = [programs / "maturin", "build", "--quiet", "-i", programs / "python"]
        manifest = ["-m", f"{crate}/Cargo.toml"] if crate else []
        run(*command, "--profile", profile, "-o", out, *manifest, env=env)
    install(into, *sorted(out.glob("*.whl")), force=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make")
    made.add_argument("folder", type=Path)
    made.add_argument("group")
    made.add_argument("--python", default=sys.executable)
    made.add_argument("--beside", type=Path)
    made.add_argument("--how", nargs=argparse.REMAINDER, default=[], help="options of pip")
    built = commands.add_parser("wheel")
    built.add_argument("folder", type=Path)
    built.add_argument("--profile", default="release")
    built.add_argument("--into", type=Path)
    built.add_argument("--crate", action="append", default=[])
    installed = commands.add_parser("install")
    installed.add_argument("folder", type=Path)
    installed.add_argument("--group")
    installed.add_argument("what", nargs=argparse.REMAINDER)
    commands.add_parser("lock")
    given = parser.parse_args()
    if given.command == "lock":
        lock()
    elif given.command == "install":
        if given.group:
            python = given.folder / "bin" / "python"
            given.what += [*groups()[given.group], *constraints_of(given.group, python)]
        install(given.folder, *given.what, force=str(given.what[-1]).endswith(".whl"))
    elif given.command == "wheel":
        wheel(given.folder, given.into or given.folder, given.profile, given.crate)
    else:
        make(given.folder, given.group, given.python, given.beside, *given.how)


if __name__ == "__main__":
    if sys.version_info < OLDEST:
        sys.exit("PYTHON must be 3.11 or newer: make PYTHON=python3.12 ...")
    try:
        try:
            main()
        except (UvFailed, subprocess.CalledProcessError):
            print("uv failed, so pip takes its place, as with PIP=1", file=sys.stderr, flush=True)
            os.environ["PIP"] = "1"
            uv.cache_clear()
            main()
    except KeyboardInterrupt:
        sys.exit(130)
