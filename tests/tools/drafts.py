"""Draft tables of libraries that have none here, and say how long that takes.

    .venv/bin/python tests/tools/drafts.py [--wheel PATH] [--write] [LIBRARY...]

Each library of drafts.toml is installed with the wheel into an environment of its own, which is
deleted in the end. `draft` is given the texts of that file, `check` judges the table again, and a
new process loads it and converts an array there and back. `--write` puts the result of all into
docs/how-to/add-a-framework.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import environment

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "drafts"
PAGE = ROOT / "docs" / "how-to" / "add-a-framework.md"
BEGIN, END = "<!-- drafts: written by tests/tools/drafts.py -->", "<!-- /drafts -->"
HEAD = """
On CPython {python}, `python tests/tools/drafts.py --write` gives:

| class | `--make` | `--read` | lines | arrays are | `draft` | `check` | in all |
|---|---|---|---|---|---|---|---|
{rows}

"""
FIRST = """
import json, sys, arraybridge, numpy
from arraybridge._tools.check.tables import sample, tables
(name,) = arraybridge.load_table(sys.argv[1])
table = tables()[name]
data = sample(table.plain_dtype(), table.plain_shape())
there = arraybridge.convert(data, name)
back = arraybridge.convert(there, "numpy")
numpy.testing.assert_array_equal(back, data, strict=True)
print(json.dumps([arraybridge.explain(*pair).route for pair in ((data, name), (there, "numpy"))]))
"""
SHARED = {
    ("share", "share"): "shared both ways",
    ("share", "copy"): "shared when they come",
    ("copy", "share"): "shared when they leave",
    ("copy", "copy"): "copied both ways",
}


def spent() -> float:
    """The processor time of the processes that have ended. What else runs has little part in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(library: str, about: dict[str, str], wheel: Path) -> str:
    """The row of a library. Raises `CalledProcessError` at the first step that fails."""
    folder, file = OUT / library, OUT / f"{library}.toml"
    python, seconds = folder / "bin" / "python", []

    def step(*arguments: object) -> str:
        start = spent()
        command = [str(each) for each in (python, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
            done.check_returncode()
        seconds.append(spent() - start)
        return done.stdout.strip()

    try:
        environment.make(folder, about.get("install", library), sys.executable, None)
        environment.install(folder, wheel)
        given = [f"--{key}={about[key]}" for key in ("make", "read") if key in about]
        step("-m", "arraybridge", "draft", about["class"], *given, "-o", file)
        step("-m", "arraybridge", "check", file)
        routes = json.loads(step("-c", FIRST, file).splitlines()[-1])
        ask = f"import importlib.metadata as m; print(m.version({library!r}))"
        version = subprocess.check_output([python, "-c", ask], text=True).strip()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [x for x in file.read_text().splitlines() if x and not x.startswith("#")]
    texts = (f"`{about[key]}`" if key in about else "" for key in ("make", "read"))
    times = (f"{each:.0f} s" for each in (*seconds[:2], sum(seconds)))
    cells = (f"`{about['class']}` ({version})", *texts, len(lines), SHARED[tuple(routes)], *times)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", default=list(listed))
    parser.add_argument("--wheel", type=Path, help="by default that of `make wheel`")
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args()
    wheel = given.wheel or next((ROOT / "build" / "wheels" / ".venv").glob("*.whl"))
    OUT.mkdir(parents=True, exist_ok=True)
    rows = []
    for each in given.libraries:
        rows.append(row(each, listed[each], wheel))
        print(rows[-1], flush=True)
    if given.write:
        text = HEAD.format(python=platform.python_version(), rows="\n".join(rows))
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
