"""List the rooms of the crates: what each is, and which others of its crate it uses.

A room is a top-level module. What it is comes from the first sentence of its documentation, what it
uses from its `crate::` paths. `--write` puts the listing into ARCHITECTURE.md, and
`test_rooms.py` checks it there. Otherwise it is printed.

`circles.toml` lists the circles of files inside the rooms, each with its reason. The same tests
compare the list with the files.
"""

import argparse
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import rust_source

ROOT = Path(__file__).resolve().parents[2]
# The lowest first. What a crate may use of another one is in its Cargo.toml.
CRATES = {
    "arraybridge-host": ROOT / "crates" / "host" / "src",
    "arraybridge-tensor": ROOT / "crates" / "tensor" / "src",
    "arraybridge-native": ROOT / "crates" / "native" / "src",
    "arraybridge-runtime": ROOT / "arraybridge-runtime" / "src",
    "arraybridge-declared": ROOT / "crates" / "declared" / "src",
}
SOURCES = CRATES["arraybridge-runtime"]
PAGE = ROOT / "ARCHITECTURE.md"
CIRCLES = Path(__file__).with_name("circles.toml")

START = "<!-- rooms: written by tests/tools/rooms.py, checked by test_rooms.py -->"
END = "<!-- /rooms -->"

# Not rooms: the root of the crate, and the doors.
DOORS = {"lib", "prelude", "private"}
# Macros that are exported at the root of a crate.
MACROS = {"dispatch", "intern", "vectorcall_class"}


class Use(NamedTuple):
    """A line in which one room uses another."""

    user: str
    used: str
    line: str


def names_in(source: str):
    """The first name of each `crate::` path, and its line. `crate::{a, b}` has two."""
    for match in re.finditer(r"(?<![\w$])crate::(?:(\w+)|\{)", source):
        line = source.count("\n", 0, match.start()) + 1
        if match[1]:
            yield match[1], line
            continue
        depth, start = 1, match.end()
        for place in range(start, len(source)):
            character = source[place]
            if depth == 1 and character in ",}":
                name = re.match(r"\s*(\w+)", source[start:place])
                if name:
                    yield name[1], line
                start = place + 1
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth == 0:
                break


def rooms(sources: Path = SOURCES) -> list[str]:
    """The top-level modules of the crate."""
    return sorted({path.stem for path in sources.iterdir() if path.stem not in DOORS})


def uses(sources: Path = SOURCES) -> list[Use]:
    """Each line in which a room uses another."""
    known, found = set(rooms(sources)), []
    for path in sorted(sources.rglob("*.rs")):
        place = path.relative_to(sources)
        room = place.parts[0].removesuffix(".rs")
        if room in DOORS:
            continue
        for name, line in names_in(rust_source.code_of(path.read_text())):
            if name in MACROS or name == room:
                continue
            if name not in known:
                raise ValueError(f"{place}:{line} names {name}, which is not a room")
            found.append(Use(room, name, f"{place}:{line}"))
    return found


def purpose(room: str, sources: Path = SOURCES) -> str:
    """The first sentence of a room's documentation."""
    file = sources / f"{room}.rs"
    source = (file if file.exists() else sources / room / "mod.rs").read_text()
    paragraph = re.match(r"(?://!.+\n)*", source)[0].replace("//!", "")
    sentence = re.split(r"\.(?:\s|$)", " ".join(paragraph.split()))[0]
    return re.sub(r"\[(`[^`]+`)\]", r"\1", sentence)


def ring(found: list[Use]) -> list[Use]:
    """The uses that form a ring of rooms; empty if there is none."""
    graph = defaultdict(dict)
    for use in found:
        graph[use.user].setdefault(use.used, use)
    done: set[str] = set()

    def visit(room: str, way: list[Use]) -> list[Use]:
        visited = [use.user for use in way]
        if room in visited:
            return way[visited.index(room) :]
        if room in done:
            return []
        for used, use in sorted(graph[room].items()):
            if circle := visit(used, [*way, use]):
                return circle
        done.add(room)
        return []

    for room in sorted(graph):
        if circle := visit(room, []):
            return circle
    return []


def misfits(
    sources: Path = SOURCES, listed: Path = CIRCLES, crate: str = "arraybridge-runtime"
) -> list[str]:
    """How the circles of files differ from those that are listed; empty if they do not."""
    entries = tomllib.loads(listed.read_text()).get("circle", [])
    entries = [entry for entry in entries if entry.get("crate", "arraybridge-runtime") == crate]
    known = {tuple(sorted(entry["files"])) for entry in entries}
    files = {
        path.relative_to(sources).as_posix(): path.read_text() for path in sources.rglob("*.rs")
    }
    uses = rust_source.Files(files).inside_rooms()
    there = {tuple(circle) for circle in rust_source.circles(uses)}
    found = [f"listed without a reason: {entry['files']}" for entry in entries if not entry["why"]]
    found += [f"listed, but no circle: {list(circle)}" for circle in sorted(known - there)]
    for circle in sorted(there - known):
        found.append(f"a circle that is not listed: {list(circle)}")
        found += [
            f"  {use.user}:{use.line} uses {use.used}"
            for use in uses
            if use.user in circle and use.used in circle
        ]
    return found


def listing(sources: Path = SOURCES) -> str:
    """The rooms, lowest first, each with its purpose and the rooms that it uses."""
    found = uses(sources)
    used = {room: {use.used for use in found if use.user == room} for room in rooms(sources)}
    order: list[str] = []
    while len(order) < len(used):
        ready = [room for room in used if room not in order and used[room] <= set(order)]
        if not ready:
            raise ValueError(f"a ring of rooms: {ring(found)}")
        order += sorted(ready)
    lines = ["| room | what it is | uses |", "|---|---|---|"]
    for room in order:
        names = ", ".join(f"`{name}`" for name in order if name in used[room])
        lines.append(f"| `{room}` | {purpose(room, sources)} | {names or 'no other room'} |")
    return "\n".join(lines)


def with_listing(page: str) -> str:
    """The page with the listing between its markers."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    tables = "\n\n".join(f"`{crate}`:\n\n{listing(path)}" for crate, path in CRATES.items())
    return f"{before}{START}\n{tables}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write ARCHITECTURE.md")
    if parser.parse_args().write:
        PAGE.write_text(with_listing(PAGE.read_text()))
    else:
        print(*map(listing, CRATES.values()), sep="\n\n")


if __name__ == "__main__":
    main()
