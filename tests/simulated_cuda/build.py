"""Build the libraries of the simulated CUDA from native/, into the folder that is given.

python build.py FOLDER

Needs g++, gcc and nm. CUDA's headers come from the wheel that PyTorch's brings. Takes seconds;
what is newer than its sources is kept.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import layout

NATIVE = layout.HERE / "native"
MACHINE = ("machine", "device", "for_tests", "runtime", "driver")
# Symbols that older headers name, and frameworks still ask for.
OLDER = {"cuCtxCreate_v2", "cuStreamGetCaptureInfo_v2", "cuCtxDestroy_v2"}
TEXTS = {
    0: "no error",
    2: "out of memory",
    600: "device not ready",
    801: "operation not supported (the simulated CUDA has no such thing)",
}
VERSIONS = """\
libcudart.so.13 { global: cuda*; __cuda*; };
libsimulated { global: cu[A-Z]*; simulated_*; local: *; };
"""


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def symbols(library: Path, *options: str) -> set[str]:
    """The names that a library or an object defines, without versions."""
    lines = run("nm", "--defined-only", *options, library).splitlines()
    return {re.split("@+", line.split()[-1])[0] for line in lines if len(line.split()) == 3}


def preprocessed(header: str) -> str:
    include = ("-I", NATIVE / "include", "-I", layout.HEADERS)
    return run("g++", "-E", "-P", "-x", "c++", *include, layout.HEADERS / header)


def refusals(defined: set[str]) -> str:
    """C functions for everything that only the real libraries have: each refuses by its name."""
    runtime = {
        name for name in symbols(layout.RUNTIME, "-D") if name.startswith(("cuda", "__cuda"))
    }
    driver = set(re.findall(r"\b(cu[A-Z]\w+)\s*\(", preprocessed("cuda.h")))
    driver |= {re.sub(r"_v[234]$", "", name) for name in driver} | OLDER
    missing = sorted((runtime | driver) - defined)
    print(
        f"simulated CUDA: {len(defined & runtime)} functions of the runtime and "
        f"{len(defined & driver)} of the driver; {len(missing)} others are refused by name"
    )
    return refusing(missing)


def refusing(names: Iterable[str]) -> str:
    """C functions that refuse by their names."""
    exported = '__attribute__((visibility("default")))'
    caller = "__builtin_return_address(0)"
    return "int simulated_refused(const char *, void *);\n" + "".join(
        f'{exported} int {name}(void) {{ return simulated_refused("{name}", {caller}); }}\n'
        for name in names
    )


def unused_functions() -> dict[str, set[str]]:
    """What PyTorch asks of the libraries that are not installed, by their names."""
    asked: dict[str, set[str]] = {soname: set() for soname in layout.UNUSED}
    for path in sorted(layout.TORCH.glob("lib*.so")):
        for line in run("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            for soname, (prefix, known) in layout.UNUSED.items():
                # Functions of cuBLAS Lt and cuSPARSE Lt begin like those of cuBLAS and cuSPARSE.
                if version == known and re.fullmatch(rf"{prefix}(?!Lt[A-Z])\w+", name):
                    asked[soname].add(name)
    return asked


def error_names() -> str:
    """C functions that name an error and describe it."""
    body = re.search(r"enum\s+cudaError\s*\{(.*?)\};", preprocessed("driver_types.h"), re.S)
    if body is None:
        raise layout.unknown("driver_types.h has no enum cudaError")
    errors = {int(code): name for name, code in re.findall(r"(\w+)\s*=\s*(\d+)", body[1])}

    def words(name: str) -> str:
        return re.sub(r"([a-z])([A-Z])", r"\1 \2", name.removeprefix("cudaError")).lower()

    def function(name: str, texts: dict[int, str], other: str) -> str:
        cases = "".join(f'case {code}: return "{text}";\n' for code, text in texts.items())
        switch = f'switch (error) {{\n{cases}}}\nreturn "{other}";'
        return f"const char *{name}(int error) {{\n{switch}\n}}\n"

    texts = {code: TEXTS.get(code, words(name)) for code, name in errors.items()}
    return function("simulated_error_name", errors, "cudaErrorUnknown") + function(
        "simulated_error_text", texts, "unrecognized error code"
    )


def build(out: Path) -> None:
    layout.check()
    stamp, pins = out / "built", repr(layout.pins())
    newest = max(path.stat().st_mtime for path in (*NATIVE.rglob("*.*"), Path(__file__)))
    if stamp.exists() and stamp.stat().st_mtime > newest and stamp.read_text() == pins:
        return
    shutil.rmtree(out, ignore_errors=True)  # kernels are built with device_code.h
    out.mkdir(parents=True)
    shutil.copytree(NATIVE / "include", out / "include")
    for name in ("vector_types.h",):
        shutil.copy(layout.HEADERS / name, out / "include")
    include = ("-I", NATIVE / "include", "-I", layout.HEADERS)
    common = ("-O1", "-g", "-fPIC", "-fvisibility=hidden")

    def compiled(name: str) -> Path:
        target = out / f"{name}.o"
        source = NATIVE / f"{name}.cpp"
        run("g++", "-std=c++17", "-Wall", *common, *include, "-c", source, "-o", target)
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, MACHINE))
    defined = set().union(*map(symbols, objects))
    (out / "refusals.c").write_text(refusals(defined) + error_names())
    (out / "versions.map").write_text(VERSIONS)
    run(
        "gcc",
        "-O0",
        "-fPIC",
        "-fvisibility=hidden",
        "-c",
        out / "refusals.c",
        "-o",
        out / "refusals.o",
    )

    def library(compiler: str, soname: str, *parts: str | Path) -> None:
        run(compiler, "-shared", f"-Wl,-soname,{soname}", *parts, "-o", out / soname)

    versions = f"-Wl,--version-script={out / 'versions.map'}"
    library("g++", "libcudart.so.13", versions, *objects, out / "refusals.o", "-ldl", "-lpthread")
    # The driver is in the same library as the runtime, so that they share their state.
    (out / "empty.c").write_text("")
    needs = ("-Wl,--no-as-needed", "-L", out, "-l:libcudart.so.13", "-Wl,-rpath,$ORIGIN")
    library("gcc", "libcuda.so.1", out / "empty.c", *needs)
    (out / "libcuda.so").symlink_to("libcuda.so.1")
    for soname, functions in unused_functions().items():
        if not functions:
            raise layout.unknown(f"PyTorch asks nothing of {soname}")
        version = layout.UNUSED[soname][1]
        (out / "unused.c").write_text(refusing(sorted(functions)))
        (out / "unused.map").write_text(f"{version} {{ global: *; }};\n")
        script = (f"-Wl,--version-script={out / 'unused.map'}",) if version else ()
        library("gcc", soname, "-fPIC", *script, out / "unused.c", *needs)
    cxx = ("-std=c++17", "-Wall", *common)
    library("g++", "libnvrtc.so.13", *cxx, NATIVE / "nvrtc.cpp", "-ldl")
    library("gcc", "libnvidia-ml.so.1", "-Wall", *common, NATIVE / "nvml.c")
    stamp.write_text(pins)


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]).resolve())
    except layout.UnknownLayout as error:
        sys.exit(str(error))
