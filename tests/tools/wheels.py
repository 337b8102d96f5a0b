"""Build the wheels and the sdist, and try each in clean environments.

    python tests/tools/wheels.py --maturin .venv/bin/maturin --out build/wheels/release

The CPythons are those in PATH, those of pyenv, and those that tests/tools/interpreters.py has got.
`WHEELS` has the wheels: each is built with the first CPython that takes it, and installed for every
one. Where there is none, maturin builds the wheel from what it knows of that version, and nothing
tries it. The sdist is installed for the newest. The smoke test runs outside of the repository.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / "tests" / "tools" / "wheel_smoke.py"
PROBE = """
import sys, sysconfig, venv
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(sys.implementation.name, *sys.version_info[:2], int(free_threaded), sys.executable)
"""


class Version(NamedTuple):
    """A version of CPython."""

    major: int
    minor: int
    free_threaded: bool = False


# The tag of each wheel, its oldest CPython, the versions that take it, and its cargo feature.
WHEELS = (
    ("cp311-cp311", "python3.11", lambda version: version == Version(3, 11), ""),
    ("cp312-abi3", "python3.12", lambda version: version >= (3, 12) and not version.free_threaded,
     "abi3"),
    ("cp314-cp314t", "python3.14t", lambda version: version == Version(3, 14, True), ""),
    ("cp315-abi3.abi3t", "python3.15", lambda version: version >= (3, 15), "abi3t"),
)  # fmt: skip


def interpreters() -> dict[Version, str]:
    """The CPythons that some wheel is for, by version."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    folders += sorted(ROOT.glob("build/interpreters/*/usr/bin"))
    folders += sorted(ROOT.glob("build/interpreters/*/bin"))
    found: dict[Version, str] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+t?", path.name) and (known := about(path)):
                version, executable = known
                if any(takes(version) for _, _, takes, _ in WHEELS):
                    found.setdefault(version, executable)
    return dict(sorted(found.items()))


def about(path: Path) -> tuple[Version, str] | None:
    """The version of a CPython that can make environments, and where it really is."""
    done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
    words = done.stdout.split()
    if done.returncode or words[0] != "cpython":
        return None
    return Version(int(words[1]), int(words[2]), words[3] == "1"), words[4]


def build(maturin: str, out: Path, python: str, *options: str) -> None:
    command = [maturin, "build", "--quiet", "-o", str(out), "-i", python, *options]
    subprocess.run(command, cwd=ROOT, check=True)


def smoke(package: Path, python: str) -> None:
    """Install a package into a clean environment, and run the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        # The packages of some systems have no pip, so that of this interpreter installs.
        subprocess.run([python, "-m", "venv", "--without-pip", f"{folder}/venv"], check=True)
        inside = f"{folder}/venv/bin/python"
        # What the caller's environment has must not leak in.
        env = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
        copied = shutil.copy(package, folder)
        pip = [sys.executable, "-m", "pip", "--python", inside, "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", copied], cwd=folder, env=env, check=True)
        test = shutil.copy(SMOKE, folder)
        subprocess.run([inside, test], cwd=folder, env=env, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maturin", default="maturin")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheels" / "release")
    parser.add_argument("--profile", default="release", help="of cargo; dev takes less long")
    options = parser.parse_args()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    found = interpreters()
    print("CPythons:", ", ".join(found.values()) or "none")
    maturin = os.path.abspath(options.maturin) if os.sep in options.maturin else options.maturin
    subprocess.run([maturin, "sdist", "-o", str(out)], cwd=ROOT, check=True)
    for tag, oldest, takes, feature in WHEELS:
        python = next((found[version] for version in found if takes(version)), None)
        if python is None:
            print(f"no CPython on this machine takes {tag}: it is built, and not tried")
        features = ["--features", feature] if feature else []
        build(maturin, out, python or oldest, "--profile", options.profile, *features)
    for package in sorted(out.iterdir()):
        print(f"{package.name}, {package.stat().st_size / 2**20:.1f} MiB")
    for tag, _, takes, _ in WHEELS:
        for version, python in found.items():
            if takes(version):
                (wheel,) = out.glob(f"*-{tag}-*")
                print(f"{tag}:", end=" ", flush=True)
                smoke(wheel, python)
    if not found:
        print("no CPython to try them with")
        return 1
    print("from the sdist:")
    (sdist,) = out.glob("*.tar.gz")
    smoke(sdist, found[max(found)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
