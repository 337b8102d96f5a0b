"""The documents say what is so: code blocks run, and the table of routes is what `explain` says."""

import doctest
import importlib.util
import re

import arraybridge as ab
import bridges
import pytest

README = bridges.ROOT / "README.md"


def tool():
    path = bridges.ROOT / "tests" / "tools" / "routes_table.py"
    spec = importlib.util.spec_from_file_location("routes_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_code_of_the_readme_runs():
    bridges.need("torch", "jax", "pyclesperanto")
    found = blocks(README, "python")
    assert len(found) >= 4
    bridges.survives("\n".join(found))


@pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")
def test_the_table_of_routes_is_what_explain_says():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    routes = tool()
    text = README.read_text()
    assert routes.written(text, routes.table()) == text, (
        "README.md is out of date: python tests/tools/routes_table.py --write"
    )


def test_the_table_of_the_guide_is_the_one_that_is_tested():
    guide = blocks(bridges.ROOT / "CONTRIBUTING.md", "toml")
    tested = (bridges.ROOT / "tests" / "seventh" / "tvm_ffi.toml").read_text()
    without_comments = "\n".join(
        line for line in tested.splitlines() if not line.startswith("#")
    ).strip()
    assert [block.strip() for block in guide] == [without_comments]


@pytest.mark.parametrize(
    "name", ["convert", "convert_memory", "detect_memory_type", "explain", "trace", "no_copy",
             "registered_pairs", "frameworks", "MemoryType", "Converter", "DtypeConversion",
             "dtype_policy", "finish_dtype", "stack_slices", "unstack_slices", "process_slices",
             "cleanup_all_gpu_frameworks", "Declared", "memory_types", "numpy", "torch",
             "tensorflow", "jax", "pyclesperanto"]
)  # fmt: skip
def test_the_examples_of_the_docstrings_run(name):
    bridges.need("torch", *({name} & set(bridges.CPU_FRAMEWORKS)))
    document = getattr(ab, name).__doc__
    test = doctest.DocTestParser().get_doctest(document, {}, name, None, 0)
    assert test.examples, f"{name} has no example"
    out = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=out.append)
    assert not runner.failures, "".join(out)


def test_the_links_of_the_documents_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/claims.md"):
        text = (bridges.ROOT / name).read_text()
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (bridges.ROOT / target).exists(), f"{name}: {target}"


def test_every_promise_of_the_paper_names_tests_that_exist():
    text = (bridges.ROOT / "docs" / "claims.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for row in rows:
        _, promise, tests, result, _ = row.split("|")
        named = re.findall(r"`([\w./]+\.py)::(\w+)`", tests)
        assert named or "no test yet" in result, promise
        for file, test in named:
            source = (bridges.HERE / file).read_text()
            assert f"\ndef {test}(" in source, f"{promise}: {file}::{test}"
            # What was not run, and what ran on a fake only, may not be called passed.
            assert "fake" not in test or "fake" in result, promise
            assert not file.startswith("test_gpu") or result.strip().startswith("not run"), promise


def test_the_page_on_extensions_shows_the_compiled_example():
    page = bridges.ROOT / "docs" / "rust-extension.md"
    crate = bridges.ROOT / "examples" / "image-filters"
    source = "".join((crate / "src" / name).read_text() for name in ("lib.rs", "cuda.rs"))
    manifests = (crate / "Cargo.toml").read_text() + (crate / "pyproject.toml").read_text()
    shown = [(block, source) for block in blocks(page, "rust") + blocks(README, "rust")]
    shown += [(block, manifests) for block in blocks(page, "toml")]
    assert len(shown) >= 6
    for block, text in shown:
        assert block in text, block
