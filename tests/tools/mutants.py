"""Change the source, one line at a time, and check that a test fails.

The changes are in `tests/mutants/*.toml`. Each names a rule, a file, a text that occurs once in it,
the text that replaces it, and the tests that have to fail: Python tests by file or node id, or a
filter for the Rust tests of a crate, by default of arraybridge-runtime. With `--simulated`, those
under `simulated` have to fail, which run with the real frameworks on the simulated CUDA. Everything
is built in a copy of the repository under `build/mutants`. The exit status is 1 if a change goes
unnoticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "mutants" / "tree"
SITE = ROOT / "build" / "mutants" / "site"
# What tests/simulated_cuda/build.py builds, and the options of pytest there.
SIMULATED_CUDA = ROOT / "build" / "simulated_cuda"
ON_SIMULATION = ("-p", "plugin", "-m", "gpu")
# The crates with Rust tests, and the options for these.
CRATES = {
    "arraybridge-host": [], "arraybridge-tensor": ["--lib"], "arraybridge-native": ["--lib"],
    "arraybridge-runtime": ["--lib"], "arraybridge-declared": ["--lib"], "arraybridge-macros": [],
    "arraybridge-table": [],
}  # fmt: skip
# A mutant may wait forever. A build on a busy machine does not take this long.
TIMEOUT = 900
# What pytest returns if it was used wrongly, and if there was no test to run.
NOT_TESTED = (4, 5)


@dataclass(frozen=True)
class Mutant:
    """A change of the source that breaks a rule."""

    rule: str
    file: str
    old: str
    new: str
    python: tuple[str, ...] = ()
    rust: str = ""
    crate: str = "arraybridge-runtime"
    simulated: tuple[str, ...] = ()
    # The number of the rule in the section "Streams" of ARCHITECTURE.md.
    streams: int = 0

    def mutated(self) -> str:
        """The source with the change."""
        source = (TREE / self.file).read_text()
        if source.count(self.old) != 1:
            text = f"{self.file} has {source.count(self.old)} times {self.old!r}"
            raise SystemExit(f"{self.rule}: {text}")
        return source.replace(self.old, self.new)


def listed(text: str, simulated: bool = False) -> list[Mutant]:
    """The mutants whose file or rule contains a text, of those with tests of a kind."""
    mutants = []
    for path in sorted((ROOT / "tests" / "mutants").glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            tests = {kind: tuple(entry.get(kind, ())) for kind in ("python", "simulated")}
            mutant = Mutant(**{**entry, **tests})
            is_asked_for = mutant.simulated if simulated else mutant.python or mutant.rust
            if is_asked_for and (text in path.stem or text in mutant.rule):
                mutants.append(mutant)
    return mutants


def copy_tree() -> None:
    """Copy the files under version control and new ones.

    Files that are the same keep their time, so that cargo builds only what has changed.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, TREE / name
        if source.is_symlink():
            # A link, so that a change of the file is a change of what the link stands for.
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(source.readlink())
        elif not source.is_file():
            target.unlink(missing_ok=True)
        elif not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy. The status of one that takes too long is 124."""
    variables = {**os.environ, **environment}
    options = {"cwd": TREE, "env": variables, "capture_output": True, "text": True}
    try:
        return subprocess.run(command, check=False, timeout=TIMEOUT, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "timeout")


def build_wheel() -> subprocess.CompletedProcess[str]:
    """Build the package of the copy."""
    # The folder and the variables of `built` in tests/python/bridges.py. With others, cargo would
    # build pyo3 twice.
    target = TREE / "build" / "extension"
    major, minor = sys.version_info[:2]
    done = run(
        ["cargo", "build", "--quiet", "-p", "arraybridge-py"],
        CARGO_TARGET_DIR=str(target),
        PYO3_PYTHON=sys.executable,
        PYO3_ENVIRONMENT_SIGNATURE=f"{sys.implementation.name}-{major}.{minor}-64bit",
        PYO3_BUILD_EXTENSION_MODULE="1",
    )
    if done.returncode == 0:
        package = SITE / "arraybridge"
        source = TREE / "arraybridge-py" / "python" / "arraybridge"
        shutil.copytree(source, package, dirs_exist_ok=True)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        shutil.copy(target / "debug" / "lib_core.so", package / f"_core{suffix}")
    return done


def cargo_test(crate: str, option: str) -> subprocess.CompletedProcess[str]:
    """Build or run the Rust tests of a crate."""
    return run(
        ["cargo", "test", "--quiet", "-p", crate, *CRATES[crate], option],
        CARGO_TARGET_DIR=str(TREE / "target"),
        PYO3_PYTHON=sys.executable,
        LD_LIBRARY_PATH=sysconfig.get_config_var("LIBDIR"),
        PYTHONPATH=sysconfig.get_path("platlib"),
    )


def pytest(tests: tuple[str, ...], simulated: bool) -> subprocess.CompletedProcess[str]:
    """Run Python tests with the package of the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    if not simulated:
        return run(command, PYTHONPATH=str(SITE))
    # The line of a test that fails has its message too, if there is room.
    options = {"SIMULATED_CUDA": str(SIMULATED_CUDA), "COLUMNS": "400"}
    # The wheels have no bytecode.
    options["PYTHONDONTWRITEBYTECODE"] = ""
    folder = TREE / "tests" / "simulated_cuda"
    path = os.pathsep.join(map(str, (SITE, folder / "site", folder)))
    return run([*command, *ON_SIMULATION], PYTHONPATH=path, **options)


def built_and_tested(
    mutant: Mutant, simulated: bool
) -> tuple[bool, subprocess.CompletedProcess[str]]:
    """Whether the copy builds, and what the tests, or the build, returned."""
    by_cargo = mutant.rust and not simulated
    built = cargo_test(mutant.crate, "--no-run") if by_cargo else build_wheel()
    if built.returncode:
        return False, built
    if by_cargo:
        return True, cargo_test(mutant.crate, mutant.rust)
    return True, pytest(mutant.simulated if simulated else mutant.python, simulated)


def unchanged_passes(mutants: list[Mutant], simulated: bool) -> bool:
    """Whether the tests pass without a change."""

    def all_of(kind: str) -> tuple[str, ...]:
        return tuple(sorted({test for mutant in mutants for test in getattr(mutant, kind)}))

    checks = []
    if simulated:
        checks += [Mutant("unchanged", "", "", "", simulated=all_of("simulated"))]
    else:
        rust = sorted({(mutant.rust, mutant.crate) for mutant in mutants if mutant.rust})
        checks += [Mutant("unchanged", "", "", "", (), text, crate) for text, crate in rust]
        python = all_of("python")
        checks += [Mutant("unchanged", "", "", "", python)] if python else []
    for check in checks:
        built, done = built_and_tested(check, simulated)
        if not built or done.returncode:
            print(done.stdout[-4000:], done.stderr[-4000:], "The tests fail without a change.")
            return False
    return True


def verdict(mutant: Mutant, simulated: bool) -> tuple[str, str]:
    """Make a change, build, test, and undo the change. Also the first test that failed, and why."""
    path, mutated = TREE / mutant.file, mutant.mutated()
    source = path.read_text()
    try:
        path.write_text(mutated)
        built, done = built_and_tested(mutant, simulated)
    finally:
        path.write_text(source)
    if not built:
        print(done.stderr[-2000:])
        return "NO BUILD", ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode == 0 or (not mutant.rust and done.returncode in NOT_TESTED):
        return "MISSED", ""
    return "caught", failed[0] if failed else f"exit status {done.returncode}"


def main() -> int:
    """Try the mutants whose file or rule contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="part of a file's name or of a rule")
    parser.add_argument("--simulated", action="store_true", help="run on the simulated CUDA")
    arguments = parser.parse_args()
    simulated = arguments.simulated
    mutants = listed(arguments.text, simulated)
    copy_tree()
    for mutant in mutants:
        mutant.mutated()
    if not unchanged_passes(mutants, simulated):
        return 1
    caught = 0
    for mutant in mutants:
        start = time.monotonic()
        found, why = verdict(mutant, simulated)
        caught += found == "caught"
        print(f"{found:8} {time.monotonic() - start:4.0f} s  {mutant.rule}", flush=True)
        if simulated and why:
            print(f"                 {why[:300]}", flush=True)
    where = " on the simulated CUDA" if simulated else ""
    print(f"{caught} of {len(mutants)} mutants caught{where}")
    return int(caught != len(mutants))


if __name__ == "__main__":
    sys.exit(main())
