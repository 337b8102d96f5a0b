"""Freeze `program.py` by PyInstaller, with nothing but its hook, and run it: `make frozen`."""

import argparse
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import arraybridge as ab

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# A module that Rust code imports, by PyO3's two functions.
IMPORTED = re.compile(
    r'(?:py\.import\(|PyModule::import\(py, )(?:(?:crate::)?intern!\(py, )?"([\w.]+)"'
)


def modules() -> list[str]:
    """The submodules of the package, those of the original's names, and what Rust code imports."""
    prefixes = "arraybridge.", "arraybridge.compat."
    of_package = {
        module.name
        for prefix, folder in zip(prefixes, (ab.__path__, ab.compat.__path__), strict=True)
        for module in pkgutil.iter_modules(folder, prefix)
    }
    sources = [*ROOT.glob("arraybridge-*/src/**/*.rs"), *ROOT.glob("crates/*/src/**/*.rs")]
    of_rust = {
        name
        for file in sources
        if "tests" not in file.parts and file.stem != "tests"
        for name in IMPORTED.findall(file.read_text())
    }
    assert {"ml_dtypes", "dataclasses"} <= of_rust, of_rust
    return sorted(of_package - {"arraybridge.__main__"} | of_rust)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True)
    out = arguments.parse_args().out.resolve()
    places = ["--distpath", out / "dist", "--workpath", out / "work", "--specpath", out]
    options = ["--noconfirm", "--log-level", "WARN", *places, HERE / "program.py"]
    subprocess.run([sys.executable, "-m", "PyInstaller", *options], check=True, timeout=600)
    program = out / "dist" / "program" / "program"
    subprocess.run([program, *modules()], check=True, timeout=120, cwd=out, env={})


main()
