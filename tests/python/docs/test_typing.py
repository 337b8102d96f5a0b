"""The sample for type checkers, which `make lint` checks."""

import ast

import arraybridge as ab
import bridges


def test_the_sample_uses_every_public_name():
    text = (bridges.ROOT / "tests" / "typing" / "sample.py").read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in nodes if ast.unparse(node.value) == "ab"}
    assert used >= set(ab.__all__), set(ab.__all__) - used
