"""Write THIRD-PARTY-LICENSES.txt: the crates that the wheel links, with their licences.

    python tests/tools/licences.py --write

Without `--write` the text is printed. It needs cargo, and the sources of the crates that a build
downloads. Crates that only run during a build, such as macros, are not in the wheel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "THIRD-PARTY-LICENSES.txt"
LINE = "=" * 80
HEAD = """The compiled module of arraybridge-rs contains code of these crates. Each is used under
one of the licences of its line, whose text follows below.
"""


def run(*arguments: str) -> str:
    command = ["cargo", *arguments, "--locked", "--offline"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked() -> set[tuple[str, str]]:
    """The names and versions of the crates in the module, but for this repository's own."""
    listed = run(
        "tree", "-p", "arraybridge-py", "--edges", "normal,no-proc-macro", "--target", "all",
        "--prefix", "none", "--format", "{p}",
    )  # fmt: skip
    words = [line.split() for line in listed.splitlines() if line and not line.startswith("arrayb")]
    return {(name, version.removeprefix("v")) for name, version, *_ in words}


def texts(folder: Path) -> list[str]:
    """The texts of a crate's licences."""
    names = ("LICEN", "COPYING", "UNLICENSE")
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(names))
    return [path.read_text(encoding="utf-8").strip() for path in files if path.is_file()]


def document() -> str:
    metadata = json.loads(run("metadata", "--format-version", "1"))
    found = linked()
    crates = sorted(
        (
            package
            for package in metadata["packages"]
            if (package["name"], package["version"]) in found
        ),
        key=lambda package: (package["name"], package["version"]),
    )
    lines = [HEAD]
    lines += [f"{each['name']} {each['version']}: {each['license']}" for each in crates]
    users: dict[str, list[str]] = {}
    for each in crates:
        for text in texts(Path(each["manifest_path"]).parent):
            users.setdefault(text, []).append(f"{each['name']} {each['version']}")
    for text, names in users.items():
        lines += ["", LINE, ", ".join(names), "", text]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        FILE.write_text(document(), encoding="utf-8")
    else:
        print(document(), end="")


if __name__ == "__main__":
    main()
