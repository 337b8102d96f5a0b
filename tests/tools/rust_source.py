"""Read Rust source as far as the tools need it: what a file defines, and which files it uses.

A crate is a dictionary of its sources by their paths below `src`. A file uses another if one of its
paths leads to something that the other defines. Imports are followed: whoever names what a `mod.rs`
only passes on uses the file that defines it. Code that is compiled for tests only is left out.

A circle is a set of files of one room that all use each other, also by way of others. A `mod.rs`
belongs to every file of its folder, so what those use of each other makes no circle.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import NamedTuple

Crate = dict[str, str]
Module = tuple[str, ...]

TOKEN = re.compile(
    r"""
    (?P<line> //[^\n]* )
    | (?P<block> /\* )
    | (?P<raw> \b[bc]?r(?P<hashes>\#*)" )
    | (?P<string> [bc]?"(?:\\.|[^"\\])*" )
    | (?P<char> b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])' )
    """,
    re.VERBOSE | re.DOTALL,
)
IDENTIFIER = r"(?:r\#)?[A-Za-z_]\w*"
PATH = re.compile(rf"(?<![\w:.$])({IDENTIFIER})((?:\s*::\s*{IDENTIFIER})+)")
VISIBLE = r"(?:pub(?:\s*\([^)]*\))?\s+)?"
USE = re.compile(rf"(?<![\w.]){VISIBLE}use\s+([^;]+);")
DEFINITION = re.compile(
    rf"(?<![\w.#]){VISIBLE}(?:(?:default|const|async|unsafe|extern(?:\s+\"[^\"]*\")?)\s+)*"
    rf"(fn|struct|enum|union|trait|type|const|static(?:\s+mut)?|mod|macro_rules!)\s+({IDENTIFIER})"
)
TYPES = {"struct", "enum", "union", "trait", "type"}


def blank(text: str) -> str:
    """Spaces in place of everything but line breaks."""
    return re.sub(r"[^\n]", " ", text)


def end_of_comment(source: str, start: int) -> int:
    """The end of a block comment, which may contain others."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", source[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return start + mark.end()
    return len(source)


def code_of(source: str) -> str:
    """The source with spaces in place of comments and of what strings and characters contain."""
    pieces, place = [], 0
    while found := TOKEN.search(source, place):
        pieces.append(source[place : found.start()])
        end = found.end()
        if found["block"]:
            end = end_of_comment(source, found.start())
        elif found["raw"]:
            close = source.find('"' + found["hashes"], end)
            end = len(source) if close < 0 else close + 1 + len(found["hashes"])
        inside = source[found.start() : end]
        is_text = found["raw"] or found["string"]
        pieces.append('"' + blank(inside[1:-1]) + '"' if is_text else blank(inside))
        place = end
    return "".join([*pieces, source[place:]])


def closing(code: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    opened = code[start]
    closed = {"(": ")", "[": "]", "{": "}"}[opened]
    depth = 0
    for place in range(start, len(code)):
        depth += {opened: 1, closed: -1}.get(code[place], 0)
        if not depth:
            return place
    return len(code) - 1


def without_tests(code: str) -> str:
    """The code with spaces in place of what has `#[cfg(test)]`, or the same with a feature."""
    pieces, place = [], 0
    for found in re.finditer(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]", code):
        if found.start() < place:
            continue
        end = re.compile(r"[;{]").search(code, found.end())
        last = (
            closing(code, end.start())
            if end and end[0] == "{"
            else found.end()
            if not end
            else end.start()
        )
        pieces += [code[place : found.start()], blank(code[found.start() : last + 1])]
        place = last + 1
    return "".join([*pieces, code[place:]])


def end_of_generics(code: str, start: int) -> int:
    """The end of a list in angle brackets."""
    depth = 0
    for place in range(start, len(code)):
        if code[place] == ">" and code[place - 1] in "-=":
            continue
        depth += (code[place] == "<") - (code[place] == ">")
        if not depth:
            return place + 1
    return len(code)


def split(text: str, separator: str = ",") -> list[str]:
    """The parts of a list, each of which may have brackets. `->` and `=>` close none."""
    parts, depth, start = [], 0, 0
    text = text.replace("->", "  ").replace("=>", "  ")
    for place, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if character == separator and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def imports(tree: str) -> list[tuple[str, Module]]:
    """What a `use` declaration names, each with its path. A glob has the name `*`."""
    tree = tree.strip()
    if "{" not in tree:
        path, _, name = re.sub(r"\s+as\s+", "\0", tree).partition("\0")
        parts = tuple(re.sub(r"\s|r#", "", path).removeprefix("::").split("::"))
        if parts[-1] == "self":
            parts = parts[:-1]
        return [(name.strip() or parts[-1], parts)]
    start = tree.index("{")
    front = tree[:start]
    return [
        each
        for part in split(tree[start + 1 : closing(tree, start)])
        for each in imports(front + part.strip())
    ]


def module_of(path: str) -> Module:
    """The module of a file."""
    parts = PurePosixPath(path).with_suffix("").parts
    return () if parts in (("lib",), ("main",)) else parts[:-1] if parts[-1] == "mod" else parts


def room_of(path: str) -> str:
    """The top-level module that a file is in."""
    return path.split("/")[0].removesuffix(".rs")


def is_head(path: str, of: str) -> bool:
    """Whether a file is the `mod.rs` of a folder that another file is in."""
    return path.endswith("/mod.rs") and of.startswith(path.removesuffix("mod.rs"))


class Use(NamedTuple):
    """A line in which a file uses another."""

    user: str
    used: str
    line: int


class Definition(NamedTuple):
    """What a file defines outside of any block."""

    keyword: str
    name: str
    line: int


def test_only(crate: Crate) -> set[str]:
    """The files of modules that are declared for tests only."""
    found = set()
    for path, source in crate.items():
        code = code_of(source)
        for name in set(re.findall(r"\bmod (\w+);", code)) - set(
            re.findall(r"\bmod (\w+);", without_tests(code))
        ):
            folder = "/".join((*module_of(path), name))
            found |= {
                file for file in crate if file == f"{folder}.rs" or file.startswith(f"{folder}/")
            }
    return found


class Files:
    """The files of a crate, and how they use each other."""

    def __init__(self, crate: Crate) -> None:
        left_out = test_only(crate)
        self.code = {
            path: without_tests(code_of(source))
            for path, source in crate.items()
            if path not in left_out
        }
        self.files = {module_of(path): path for path in self.code}
        self.imported = {
            path: [each for tree in USE.findall(code) for each in imports(tree)]
            for path, code in self.code.items()
        }

    def definitions(self, path: str) -> list[Definition]:
        """What a file defines outside of any block."""
        code, found, depth, place = self.code[path], [], 0, 0
        for each in DEFINITION.finditer(code):
            between = code[place : each.start()]
            depth += between.count("{") - between.count("}")
            place = each.start()
            if not depth:
                line = code.count("\n", 0, each.start(1)) + 1
                found.append(Definition(each[1], each[2], line))
        return found

    def start(self, module: Module, parts: Module) -> tuple[Module, Module] | None:
        """Where a path begins, and what is left of it; `None` if it leaves the crate."""
        first, rest = parts[0], parts[1:]
        if first == "crate":
            return (), rest
        if first == "self":
            return module, rest
        if first == "super":
            above = module[:-1]
            while rest and rest[0] == "super":
                above, rest = above[:-1], rest[1:]
            return above, rest
        if (*module, first) in self.files:
            return module, parts
        return None

    def defining(self, module: Module, parts: Module, seen: frozenset = frozenset()) -> str | None:
        """The file that defines what a path leads to; `None` if that is a module or elsewhere."""
        found = self.start(module, parts)
        if found is None:
            return None
        at, rest = found
        while rest and (*at, rest[0]) in self.files:
            at, rest = (*at, rest[0]), rest[1:]
        if not rest or at not in self.files or rest[0] == "*":
            return None
        # Whether the module only passes it on.
        if (at, rest[0]) not in seen:
            for name, path in self.imported[self.files[at]]:
                if name == rest[0]:
                    return self.defining(at, (*path, *rest[1:]), seen | {(at, rest[0])})
        return self.files[at]

    def uses(self) -> list[Use]:
        """Each line in which a file uses another of the crate."""
        found = set()
        for path, code in self.code.items():
            module, names = module_of(path), dict(self.imported[path])
            named = []
            for tree in USE.finditer(code):
                named += [(parts, tree.start(1)) for _, parts in imports(tree[1])]
            for each in PATH.finditer(USE.sub(lambda use: blank(use[0]), code)):
                parts = tuple(re.sub(r"\s|r#", "", each[0]).split("::"))
                if parts[0] not in ("crate", "self", "super") and parts[0] in names:
                    parts = (*names[parts[0]], *parts[1:])
                named.append((parts, each.start()))
            for parts, place in named:
                used = self.defining(module, parts)
                if used and used != path:
                    found.add(Use(path, used, code.count("\n", 0, place) + 1))
        return sorted(found)

    def inside_rooms(self) -> list[Use]:
        """The uses inside rooms, without those between a `mod.rs` and the files of its folder."""
        return [
            use
            for use in self.uses()
            if room_of(use.user) == room_of(use.used)
            and not is_head(use.user, use.used)
            and not is_head(use.used, use.user)
        ]


def circles(uses: list[Use]) -> list[list[str]]:
    """The sets of files in which each uses each other, also by way of others."""
    graph, files = defaultdict(set), set()
    for use in uses:
        graph[use.user].add(use.used)
        files |= {use.user, use.used}

    def reached(file: str) -> set[str]:
        found, ahead = set(), [file]
        while ahead:
            for used in graph[ahead.pop()] - found:
                found.add(used)
                ahead.append(used)
        return found

    within = {file: reached(file) for file in files}
    found = {
        tuple(sorted(other for other in within[file] if file in within[other]))
        for file in files
        if file in within[file]
    }
    return [list(each) for each in sorted(found) if len(each) > 1]
