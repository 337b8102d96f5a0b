"""Run the examples of the original package's documentation with it and with this package.

    python tests/tools/upstream_examples.py --upstream FOLDER [--write]

FOLDER has arraybridge 0.2.11 (`make upstream` puts it into build/upstream). The examples are in
tests/upstream/examples.toml. `--write` writes docs/upstream-examples.md. The status is 1 if this
package does not do what an example promises, and the table does not say why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "upstream" / "examples.toml"
PAGE = ROOT / "docs" / "upstream-examples.md"
LONGEST = 110

# Reads examples, one a line, and writes a result after each.
CHILD = """
import json, sys, warnings
import numpy as np
import arraybridge
warnings.simplefilter("ignore")
for line in sys.stdin:
    example = json.loads(line)
    space = {"np": np, "__name__": "example"}
    try:
        exec(example["code"], space)
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    else:
        try:
            exec(example["check"], space)
            result = "works"
        except BaseException as error:
            result = "another result"
    sys.__stdout__.write("RESULT " + json.dumps(result) + "\\n")
    sys.__stdout__.flush()
"""


def table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text())


def results(examples: list[dict[str, Any]], folder: Path | None) -> list[str]:
    """What becomes of each example, in a process that is started again after a crash."""
    found: list[str] = []
    while len(found) < len(examples):
        left = examples[len(found) :]
        found += list(results_of_child(left, folder))
        if len(found) < len(examples):
            found.append("ends the process")
    return found


def results_of_child(examples: list[dict[str, Any]], folder: Path | None) -> Iterator[str]:
    environment = dict(os.environ)
    if folder:
        path = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder.absolute()), path]))
    lines = "".join(json.dumps(example) + "\n" for example in examples)
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(
        command, env=environment, input=lines, capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            yield json.loads(line.removeprefix("RESULT "))


def cell(text: str) -> str:
    """A text as a cell of a table."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return line.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def sources(places: list[str]) -> str:
    """Where examples are: "0.2.8 a.rst:1, 7; 0.2.11 b.md:3"."""
    files: dict[str, list[str]] = {}
    for place in places:
        name, line = place.rsplit(":", 1)
        files.setdefault(name.replace("docs/source/", ""), []).append(line)
    return "; ".join(f"{name}:{', '.join(lines)}" for name, lines in files.items())


def page(data: dict[str, Any], theirs: list[str], ours: list[str]) -> str:
    examples = data["example"]
    blocks = {place for entry in examples + data["left_out"] for place in entry["from"]}
    out = {place for entry in data["left_out"] for place in entry["from"]}
    of_theirs, of_ours = theirs.count("works"), ours.count("works")
    for_want_of_a_gpu = sum("NVIDIA driver" in result for result in theirs)
    summary = (
        f"The documentation of arraybridge 0.2.8 and 0.2.11 has {len(blocks)} blocks of Python "
        f"about using it. {len(out)} of them cannot run on a machine without a GPU, or anywhere. "
        f"The others make {len(examples)} examples, each with what the text promises. On a machine "
        f"without a GPU the original package, 0.2.11, does what is promised in {of_theirs} of "
        f"them, and this package in {of_ours}; {for_want_of_a_gpu} fail with the original only "
        "because `gpu_id=0` demands a GPU there. `python tests/tools/upstream_examples.py` writes "
        "this page from `tests/upstream/examples.toml`, which has the code."
    )
    lines = [
        "# The original's examples",
        "",
        summary,
        "",
        "| example | promise | original | here | source |",
        "|---|---|---|---|---|",
    ]
    for example, their, our in zip(examples, theirs, ours, strict=True):
        here = f"differs: {example['differs']}" if "differs" in example else our
        cells = [example["name"], example["promise"], their, here]
        where = sources(example["from"])
        lines.append(f"| {' | '.join(map(cell, cells))} | {where} |")
    lines += ["", "## Left out", "", "| why | source |", "|---|---|"]
    lines += [f"| {entry['why']} | {sources(entry['from'])} |" for entry in data["left_out"]]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write docs/upstream-examples.md")
    options = parser.parse_args()
    data = table()
    examples = data["example"]
    ours = results(examples, None)
    theirs = results(examples, options.upstream)
    bad = [
        f"{example['name']}: {our}"
        for example, our in zip(examples, ours, strict=True)
        if (our == "works") == ("differs" in example)
    ]
    print(*bad, sep="\n")
    print(f"{len(examples)} examples: {theirs.count('works')} original, {ours.count('works')} here")
    if options.write:
        PAGE.write_text(page(data, theirs, ours))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
