"""The documentation is right: its code runs, its tables are current, and its links work."""

import ast
import doctest
import importlib.util
import inspect
import json
import re
import tomllib
import types

import arraybridge
import bridges
import pytest

README = bridges.ROOT / "README.md"


def tool(path="tests/tools/routes_table.py"):
    path = bridges.ROOT / path
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = tool("docs/conf.py")


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_reference_has_every_public_name_and_every_option_once():
    pages = (bridges.ROOT / "docs" / "reference").glob("*.md")
    entry = r"^(?:\.\. [a-z:]+:: | {18})arraybridge\.(\w+)$"
    named = [name for page in pages for name in re.findall(entry, page.read_text(), re.MULTILINE)]
    assert sorted(named) == sorted({*arraybridge.__all__} - {"__version__"})
    headings = re.findall(r"^## (.+)$", "\n".join(SITE.options()), re.MULTILINE)
    options = {name for heading in headings for name in heading.split(", ")}
    assert options | {"function"} == {*inspect.signature(arraybridge.torch).parameters}


def test_the_code_of_the_readme_runs(torch, jax, cle):
    found = blocks(README, "python")
    assert len(found) >= 4
    bridges.survives("\n".join(found))


RUN_PAGES = """
import json, sys, warnings
for name, code in json.loads(sys.argv[1]).items():
    with warnings.catch_warnings():
        exec(compile(code, name, "exec"), {"__name__": name})
    print(name)
"""


def lacks(code):
    """Whether code imports a module that is not installed here. `make site` installs them all."""
    names = re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)
    return any(importlib.util.find_spec(name) is None for name in names)


def test_the_code_of_every_page_of_docs_runs(torch, jax, tmp_path):
    pages = {
        page.relative_to(bridges.ROOT).as_posix(): "\n".join(blocks(page, "python"))
        for page in sorted(bridges.ROOT.glob("docs/**/*.md"))
    }
    pages = {name: code for name, code in pages.items() if code and not lacks(code)}
    # One process for all of them, since each would import the frameworks again.
    code = f"import os\nos.chdir({str(tmp_path)!r})\n{RUN_PAGES}"
    ran = bridges.survives(code, json.dumps(pages)).splitlines()
    assert len(pages) >= 11 and pages.keys() <= set(ran)


def test_the_table_of_routes_is_what_explain_says():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    routes = tool()
    text = README.read_text()
    assert routes.written(text, routes.table()) == text, (
        "README.md is out of date: python tests/tools/routes_table.py --write"
    )


def test_the_figures_are_what_the_package_does():
    bridges.need(*bridges.CPU_FRAMEWORKS)
    figures = tool("tests/tools/figures.py")
    for name, draw in figures.FIGURES.items():
        assert (figures.FOLDER / f"{name}.svg").read_text() == draw(), (
            f"docs/figures/{name}.svg is out of date: make figures"
        )
        page = bridges.ROOT / "docs" / "ideas" / f"{name}.md"
        assert f"](../figures/{name}.svg)" in page.read_text()
    drawn = {path.stem for path in figures.FOLDER.glob("*.svg")}
    assert drawn == figures.FIGURES.keys()


def test_the_guide_shows_the_table_that_is_tested():
    guide = blocks(bridges.ROOT / "CONTRIBUTING.md", "toml")
    tested = (bridges.ROOT / "tests" / "seventh" / "tvm_ffi.toml").read_text()
    without_comments = "\n".join(
        line for line in tested.splitlines() if not line.startswith("#")
    ).strip()
    assert [block.strip() for block in guide] == [without_comments]


@pytest.mark.parametrize(("page", "count"), [("add-a-framework", 6), ("inference-engine", 6)])
def test_the_guides_to_frameworks_show_parts_of_the_tables_that_ship(page, count):
    shown = blocks(bridges.ROOT / "docs" / "how-to" / f"{page}.md", "toml")
    shipped, drafted = 0, {}
    for block in shown:
        for name, keys in tomllib.loads(block).items():
            path = bridges.ROOT / "tables" / f"{name}.toml"
            shipped += path.exists()
            if path.exists():
                ships = tomllib.loads(path.read_text())[name]
                assert {key: ships[key] for key in keys} == keys
            else:
                head, _, rest = block.partition("\n")
                drafted[name] = drafted.get(name, head) + "\n" + rest
    assert shipped == count
    assert not arraybridge._core._mistakes([*drafted.items()])


PACKAGE = bridges.ROOT / "arraybridge-py" / "python" / "arraybridge"
MODULES = {
    path.stem: importlib.import_module(f"arraybridge.{path.stem}".removesuffix(".__init__"))
    for path in sorted(PACKAGE.glob("*.py"))
    if path.stem != "__main__"
}


# The union of an annotation has the docstring of its class.
CONSTANTS = [name for name in arraybridge.__all__ if name.isupper() or name == "ArrayLike"]


def documented():
    """Every module, and every public function and class, by name."""
    found = {}
    for module in MODULES.values():
        found[module.__name__] = module
        for name in module.__all__:
            # The functions for one framework have the example of the function for all.
            is_function = callable(getattr(module, name)) and name not in CONSTANTS
            if is_function and name != "cupy" and not name.endswith("_gpu"):
                found.setdefault(f"arraybridge.{name}", getattr(module, name))
    return found


DOCUMENTED = documented()


def needs_example(name):
    """All but modules, exceptions, and what users get without making it themselves."""
    thing = DOCUMENTED[name]
    if isinstance(thing, types.ModuleType) or name in (
        "arraybridge.Record",
        "arraybridge.Decorator",
    ):
        return False
    return not (isinstance(thing, type) and issubclass(thing, BaseException))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_examples_of_the_docstrings_run(torch, name):
    framework = name.rpartition(".")[2].partition("_")[0]
    bridges.need(*{framework} & set(bridges.CPU_FRAMEWORKS))
    examples_run(name, DOCUMENTED[name].__doc__, needs_example(name))


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_examples_of_the_constants_run(name):
    examples_run(name, SITE.constant_docstring(name), True)


def examples_run(name, docstring, needed):
    test = doctest.DocTestParser().get_doctest(docstring, {}, name, None, 0)
    assert test.examples or not needed, f"{name} has no example"
    if name == "arraybridge.load_table":  # the table stays
        return runs_alone(name)
    out = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=out.append)
    assert not runner.failures, "".join(out)


def runs_alone(name):
    bridges.survives(
        f"import doctest, arraybridge; test = doctest.DocTestFinder().find({name})[0]; "
        "assert not doctest.DocTestRunner().run(test).failed"
    )


@pytest.mark.parametrize("stem", [path.stem for path in sorted(PACKAGE.glob("*.pyi"))])
def test_the_stubs_have_the_docstrings_of_functions_and_constants(stem):
    text = (PACKAGE / f"{stem}.pyi").read_text()
    constants = SITE.constants
    # Written once.
    assert not {*constants(text)} & {*constants(inspect.getsource(MODULES[stem]))}
    stub = ast.parse(text)
    # The last overload has the docstring.
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    for name, node in functions.items():
        # Editors read the docstring of a function in Python where it is, if the stub has none.
        if not name.startswith("_") and (written := ast.get_docstring(node)) is not None:
            assert written == inspect.getdoc(getattr(MODULES[stem], name)), name


def anchors(text):
    """The anchors of a Markdown page: those of its headings, and those that it sets itself."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)"', text))


PAGES = [*bridges.ROOT.glob("*.md"), *bridges.ROOT.glob("docs/**/*.md")]


def test_every_link_has_a_target():
    found = 0
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
            found += 1
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(path.read_text()), f"{page.name}: #{anchor}"
    assert found >= 10


def test_every_promise_of_the_paper_names_existing_tests():
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
            # Tests that were not run, or ran on a fake only, must not be called passed.
            assert "fake" not in test or "fake" in result, promise
            on_a_gpu = file.startswith("device/test_gpu")
            assert not on_a_gpu or result.strip().startswith("not run"), promise


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
