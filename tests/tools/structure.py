"""Count what makes the Rust code easy or hard to take over, and print a table.

Without options, the files of the working tree are counted. `--at REV` counts those of a revision,
and may be given several times: each is a column. `--names` lists what was counted in the last one.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tarfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import rust_source
from rust_source import Crate, Files

ROOT = Path(__file__).resolve().parents[2]
# The crate with rooms. The tools count its rooms one by one, and the other crates as a whole.
RUNTIME = "arraybridge-runtime"
CRATES = ("arraybridge-*", "crates/*")
MANY_PARAMETERS = 5

FUNCTION = re.compile(r"(?<![\w.#])fn\s+(\w+)\s*(?=[<(])")
PUBLIC = re.compile(
    r"(?<![\w.#])pub(?:\s*\([^)]*\))?\s+"
    r"(?:(?:default|const|async|unsafe|extern(?:\s+\"[^\"]*\")?)\s+)*"
    r"(?:fn|struct|enum|union|trait|type|const|static|mod)\s+(?:mut\s+)?(\w+)"
)


class Counted(NamedTuple):
    """What was counted in one tree: the numbers by their row, and the names behind them."""

    numbers: dict[str, int]
    names: dict[str, list[str]]


def worktree(root: Path = ROOT) -> dict[str, str]:
    """The sources of the crates, by their paths in the repository."""
    files = (file for crate in CRATES for file in root.glob(f"{crate}/src/**/*.rs"))
    # A link is not a file to take over, and git has no text for one either.
    files = sorted(file for file in files if not file.is_symlink())
    return {file.relative_to(root).as_posix(): file.read_text() for file in files}


def revision(name: str, root: Path = ROOT) -> dict[str, str]:
    """The same of a revision of git."""
    wanted = [f":(glob){crate}/src/**/*.rs" for crate in CRATES]
    command = ["git", "archive", "--format=tar", name, "--", *wanted]
    packed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            each.name: archive.extractfile(each).read().decode()
            for each in archive
            if each.isfile()
        }


def parameters(code: str) -> list[tuple[str, int]]:
    """Each function of the code, with the number of its parameters; `self` is one."""
    found = []
    for each in FUNCTION.finditer(code):
        start = each.end()
        if code[start] == "<":
            start = rust_source.end_of_generics(code, start)
        start = code.index("(", start)
        inside = code[start + 1 : rust_source.closing(code, start)]
        found.append((each[1], len(rust_source.split(inside))))
    return found


def lines_of(files: list[str]) -> int:
    """The lines of some sources."""
    return sum(len(source.splitlines()) for source in files)


def counted(tree: dict[str, str]) -> Counted:
    """Count everything that the table shows."""
    crates: dict[str, Crate] = defaultdict(dict)
    for path, source in tree.items():
        crate, _, below = path.partition("/src/")
        crates[crate][below] = source
    runtime = crates.pop(RUNTIME)
    files = Files(runtime)
    numbers: Counter[str] = Counter()
    names: dict[str, list[str]] = defaultdict(list)

    for room in sorted({rust_source.room_of(path) for path in runtime}):
        inside = [source for path, source in runtime.items() if rust_source.room_of(path) == room]
        numbers[f"lines of `{room}`"] = lines_of(inside)
        numbers[f"files of `{room}`"] = len(inside)
    numbers[f"lines of {RUNTIME}"] = lines_of(list(runtime.values()))
    numbers[f"files of {RUNTIME}"] = len(runtime)
    for crate, sources in sorted(crates.items()):
        numbers[f"lines of {crate}"] = lines_of(list(sources.values()))
        numbers[f"files of {crate}"] = len(sources)

    types = defaultdict(set)
    many = f"functions with {MANY_PARAMETERS} parameters or more"
    numbers[many] = 0
    for path, code in files.code.items():
        numbers["public items"] += len(PUBLIC.findall(code))
        for function, count in parameters(code):
            if count >= MANY_PARAMETERS:
                numbers[many] += 1
                names[many].append(f"{path}: {function} has {count}")
        for each in files.definitions(path):
            if each.keyword in rust_source.TYPES:
                types[each.name].add(path)
    several = "words with several types"
    names[several] = [
        f"{name}: {', '.join(sorted(paths))}"
        for name, paths in sorted(types.items())
        if len(paths) > 1
    ]
    numbers[several] = len(names[several])

    circles = rust_source.circles(files.inside_rooms())
    numbers["circles of files"] = len(circles)
    numbers["files in circles"] = sum(map(len, circles))
    names["circles of files"] = [f"{len(circle)}: {', '.join(circle)}" for circle in circles]
    return Counted(dict(numbers), dict(names))


def table(columns: dict[str, Counted]) -> str:
    """The numbers of each tree beside each other. The lines and files of a part share a row."""
    rows = dict.fromkeys(row for each in columns.values() for row in each.numbers)
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row in rows:
        kind, _, part = row.partition(" of ")
        if row.startswith("files of ") and f"lines of {part}" in rows:
            continue
        cells = []
        for each in columns.values():
            cell = f"{each.numbers[row]:,}" if row in each.numbers else ""
            if cell and kind == "lines":
                cell += f" in {each.numbers[f'files of {part}']}"
            cells.append(cell)
        name = f"{part}: lines in files" if kind == "lines" else row
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and with `--names` what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", action="append", default=[], metavar="REV", help="count a revision")
    parser.add_argument("--names", action="store_true", help="list what was counted")
    options = parser.parse_args()
    columns = {name: counted(revision(name)) for name in options.at}
    if not columns:
        columns = {"working tree": counted(worktree())}
    print(table(columns))
    if options.names:
        *_, last = columns.values()
        for row, found in last.names.items():
            print(f"\n{row}:", *found, sep="\n  ")


if __name__ == "__main__":
    main()
