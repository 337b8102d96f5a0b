"""The layout of the wheels that the simulated CUDA replaces parts of.

The simulation loads libraries under the names that these wheels look for, and overwrites
functions inside CuPy's modules. Both are known for the versions in pyproject.toml only.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import struct
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SITE = Path(sysconfig.get_path("purelib"))
# What the wheel of CUDA's runtime, which PyTorch's wheel brings, has where.
CUDA = SITE / "nvidia" / "cu13"
HEADERS = CUDA / "include"
RUNTIME = CUDA / "lib" / "libcudart.so.13"
TORCH = SITE / "torch" / "lib"
# The libraries that PyTorch links to and nothing here calls: the prefix of their functions, and the
# version of these. Their wheels have gigabytes, and are not installed.
UNUSED = {
    "libcublas.so.13": ("cublas", "libcublas.so.13"),
    "libcublasLt.so.13": ("cublasLt", "libcublasLt.so.13"),
    "libcudnn.so.9": ("cudnn", "libcudnn.so.9"),
    "libcufft.so.12": ("cufft", "libcufft.so.12"),
    "libcufile.so.0": ("cuFile", ""),
    "libcupti.so.13": ("cupti", "libcupti.so.13"),
    "libcusolver.so.12": ("cusolver", "libcusolver.so.12"),
    "libcusparse.so.12": ("cusparse", "libcusparse.so.12"),
    "libcusparseLt.so.0": ("cusparseLt", ""),
    "libnccl.so.2": ("nccl", ""),
    "libnvshmem_host.so.3": ("nvshmem", "NVSHMEM"),
}
# The modules of CuPy that have a runtime linked into them.
CUPY_MODULES = (
    "cupy_backends/cuda/api/runtime.*.so",
    "cupy/cuda/cub.*.so",
    "cupy/cuda/thrust.*.so",
    "cupy/random/_generator_api.*.so",
)


class UnknownLayout(Exception):
    """A wheel is not the one that the simulation was made for."""


def unknown(what: str) -> UnknownLayout:
    return UnknownLayout(
        f"the simulated CUDA does not know this layout: {what}. It knows the wheels of the group "
        f"`simulated` in pyproject.toml; after an update of those, compare {HERE.name}/layout.py "
        f"and {HERE.name}/loader.py with the new wheels"
    )


def pins() -> dict[str, str]:
    """The exact versions of the group `simulated` in pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    parts = [line.split("==") for line in groups["simulated"] if "==" in line]
    return dict(parts)


def check() -> None:
    """Compare the wheels that are installed with the known ones.

    Raises:
        UnknownLayout: a wheel is missing or of another version, or a file is elsewhere.
    """
    for name, version in pins().items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise unknown(f"{name} is not installed") from None
        # A build of PyTorch for another CUDA has a suffix.
        if found != version:
            raise unknown(f"{name} is {found}, not {version}")
    for path in (RUNTIME, HEADERS / "cuda.h", HEADERS / "cuda_runtime_api.h"):
        if not path.exists():
            raise unknown(f"there is no {path}")
    for pattern in CUPY_MODULES:
        if len(list(SITE.glob(pattern))) != 1:
            raise unknown(f"{SITE}/{pattern} is not one file")


def local_functions(library: Path) -> Iterator[tuple[str, int, int]]:
    """The functions in the full symbol table of a 64-bit ELF file: name, address and size."""
    data = library.read_bytes()
    section_headers = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, section_headers + index * size)
        for index in range(count)
    ]
    symbol_table, function = 2, 2
    for section in sections:
        _, kind, _, _, offset, length, names, *_ = section
        if kind != symbol_table:
            continue
        strings = sections[names][4]
        for entry in range(offset, offset + length, 24):
            name, info, _, _, address, bytes_ = struct.unpack_from("<IBBHQQ", data, entry)
            if info & 15 == function and address:
                start = strings + name
                yield data[start : data.index(b"\0", start)].decode(), address, bytes_
