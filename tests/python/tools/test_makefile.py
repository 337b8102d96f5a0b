"""The commands of the Makefile."""

import re
import subprocess

import bridges

PAGES = [
    *bridges.ROOT.glob("*.md"),
    *bridges.ROOT.glob("docs/**/*.md"),
    *bridges.ROOT.glob(".github/workflows/*.yml"),
    bridges.ROOT / ".ci" / "run",
]


def make(*words: str) -> str:
    command = ["make", "PYTHON=python3", *words]
    return subprocess.check_output(command, cwd=bridges.ROOT, text=True)


def test_help_lists_every_command_that_a_page_names():
    listed = set(re.findall(r"^  ([a-z0-9-]+) ", make("help"), re.MULTILINE))
    named = {
        word
        for page in PAGES
        for line in re.findall(r"(?:`|\$ |run: |    )make ([^`\n#&]+)", page.read_text())
        for word in re.findall(r"(?<!\S)[a-z][a-z0-9-]+(?!\S)", re.sub(r'"[^"]*"', "", line))
    }
    assert len(named) > 40 and named <= listed, named - listed
    # Each has a rule, and what it needs has one.
    make("--dry-run", *sorted(listed))


def test_the_makefile_is_a_table_of_contents():
    text = (bridges.ROOT / "Makefile").read_text()
    assert text.count("\n") <= 250
    for tool in re.findall(r"tests/tools/[\w-]+(?:\.py)?", text):
        assert (bridges.ROOT / tool).exists(), tool
