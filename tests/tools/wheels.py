"""Build the wheels and the sdist, and try each in clean environments.

    python tests/tools/wheels.py --maturin .venv/bin/maturin --out build/wheels/release

The wheel for CPython 3.11 is built with the first interpreter of that version, the abi3 wheel with
one of a later version. Each is installed for every CPython on this machine that takes it, the sdist
for the newest. The smoke test runs outside of the repository.
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

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / "tests" / "tools" / "wheel_smoke.py"
OLDEST = (3, 11)
ABI3 = (3, 12)
PROBE = """
import sys, sysconfig
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(sys.implementation.name, *sys.version_info[:2], free_threaded, sys.executable)
"""


def interpreters() -> dict[tuple[int, int], str]:
    """The CPythons that the package supports, by version: those in PATH and those of pyenv."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+", path.name):
                version, executable = about(path)
                if version >= OLDEST:
                    found.setdefault(version, executable)
    return dict(sorted(found.items()))


def about(path: Path) -> tuple[tuple[int, int], str]:
    """The version of a CPython with the GIL that can make environments, and where it really is."""
    done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
    words = done.stdout.split()
    if done.returncode or words[0] != "cpython" or words[3] == "True":
        return (0, 0), ""
    has_venv = subprocess.run([path, "-c", "import ensurepip, venv"], capture_output=True)
    return ((0, 0) if has_venv.returncode else (int(words[1]), int(words[2]))), words[4]


def build(maturin: str, out: Path, python: str, *options: str) -> None:
    command = [maturin, "build", "--quiet", "--release", "-o", str(out), "-i", python, *options]
    subprocess.run(command, cwd=ROOT, check=True)


def only(out: Path, pattern: str) -> Path:
    (path,) = out.glob(pattern)
    return path


def smoke(package: Path, python: str) -> None:
    """Install a package into a clean environment, and run the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        inside = f"{folder}/venv/bin/python"
        # What the caller's environment has must not leak in.
        env = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
        copied = shutil.copy(package, folder)
        install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, copied], cwd=folder, env=env, check=True)
        test = shutil.copy(SMOKE, folder)
        subprocess.run([inside, test], cwd=folder, env=env, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maturin", default="maturin")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheels" / "release")
    options = parser.parse_args()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    found = interpreters()
    print("CPythons:", ", ".join(found.values()) or "none")
    maturin = os.path.abspath(options.maturin) if os.sep in options.maturin else options.maturin
    subprocess.run([maturin, "sdist", "-o", str(out)], cwd=ROOT, check=True)
    for version, python in found.items():
        if version == OLDEST:
            build(maturin, out, python)
        elif version == min(version for version in found if version >= ABI3):
            build(maturin, out, python, "--features", "abi3")
    for package in sorted(out.iterdir()):
        print(f"{package.name}, {package.stat().st_size / 2**20:.1f} MiB")
    for version, python in found.items():
        smoke(only(out, "*-cp311-cp311-*" if version < ABI3 else "*-cp312-abi3-*"), python)
    if not found:
        print("no CPython to try them with")
        return 1
    print("from the sdist:")
    smoke(only(out, "*.tar.gz"), found[max(found)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
