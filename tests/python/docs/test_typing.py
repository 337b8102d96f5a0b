"""The sample for type checkers, which `make lint` checks with mypy and pyright."""

import ast
import re
import subprocess
import sys

import arraybridge as ab
import bridges
import pytest


def test_the_sample_uses_every_public_name():
    text = (bridges.ROOT / "tests" / "typing" / "sample.py").read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in nodes if ast.unparse(node.value) == "ab"}
    assert used >= set(ab.__all__), set(ab.__all__) - used


# ty takes what a decorator of a method returns for a function of any arguments, and an unpacked
# TypedDict for keywords of any name.
NOT_FOUND = {
    "Microscope().corrected(image, drak=1.0)",
    'ab.memory_types("torch", "input", slice_axs=(0, 1))',
    "ab.torch(split_axes=0)",
}
# It does not read a first argument out of a signature, so the result is Any.
NOT_KNOWN = {
    "assert_type(like_input(image, by=3.0), Image)",
    'assert_type(like_input(ab.convert(image, "jax")), jax.Array)',
}


def test_ty_finds_the_mistakes_of_the_sample_and_no_others():
    """It does not read the codes of mypy, so a line with a mistake is one that it reports."""
    pytest.importorskip("ty")
    sample = bridges.ROOT / "tests" / "typing" / "sample.py"
    command = [sys.executable, "-m", "ty", "check", "--python", sys.prefix, str(sample)]
    done = subprocess.run(
        [*command, "--output-format", "concise"], capture_output=True, text=True, check=False
    )
    reported = {int(line) for line in re.findall(r"sample\.py:(\d+):\d+: ", done.stdout)}
    lines = dict(enumerate(sample.read_text().splitlines(), 1))
    mistakes = {number for number, line in lines.items() if "# type: ignore" in line}
    found = {lines[number].split("#")[0].strip() for number in mistakes - reported}
    others = {lines[number].strip() for number in reported - mistakes}
    assert (found, others) == (NOT_FOUND, NOT_KNOWN), done.stdout + done.stderr
