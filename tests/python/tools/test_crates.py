"""The crates of this repository, which share a target folder."""

import re
import shutil
import subprocess
import sys
import tomllib
import types
from collections import Counter

import pytest
from arraybridge import _core
from bridges import ROOT

sys.path.append(str(ROOT / "tests" / "tools"))
import licences  # noqa: E402


def test_no_two_extension_modules_have_the_same_library():
    """Cargo gives such a library no hash, and takes that of another crate for it."""
    names: Counter[str] = Counter()
    for place in ("*", "crates/*", "examples/*", "tests/*", "tests/benchmarks/*"):
        for manifest in ROOT.glob(f"{place}/Cargo.toml"):
            crate = tomllib.loads(manifest.read_text())
            library = crate.get("lib", {})
            if "cdylib" in library.get("crate-type", ()):
                name = library.get("name", crate["package"]["name"])
                names[name.replace("-", "_")] += 1
    assert set(names) >= {"_core", "image_filters", "extension"}
    assert set(names.values()) == {1}, names


def dependencies(features: str, crate: str = "arraybridge-runtime") -> set[str]:
    """What is compiled before a crate with these features."""
    crate = ["-p", crate, "--no-default-features", "--features", features]
    form = ["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    command = ["cargo", "tree", "--locked", *crate, *form]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def test_an_extension_compiles_no_crate_that_it_does_not_need():
    if shutil.which("cargo") is None:
        pytest.skip("cargo is needed to list dependencies")
    extension = dependencies("")
    assert {"pyo3", "numpy", "dlpark", "inventory", "syn"} < extension
    others = {"cudarc", "half", "zerocopy", "serde", "serde_core", "syn2", "proptest"}
    assert not extension & others
    assert "cudarc" in dependencies("cuda")
    half = {"half", "cfg-if", "zerocopy", "zerocopy-derive"}
    assert dependencies("half") - extension == half
    for features in ("casts", "cuda"):
        assert not dependencies(features, "arraybridge-tensor") & {"pyo3", "numpy", "syn2"}


def test_rust_imports_one_module_of_the_package_and_the_package_gives_it_the_parts():
    sources = [*ROOT.glob("arraybridge-*/src/**/*.rs"), *ROOT.glob("crates/*/src/**/*.rs")]
    code = "\n".join(path.read_text() for path in sources)
    modules = r'"arraybridge\.(_[a-z]+|wrappers|exceptions)\b'
    assert set(re.findall(modules, code)) == {"_core"}
    parts = (ROOT / "arraybridge-runtime/src/interpreter/package.rs").read_text()
    named = re.findall(r'^    \w+ = "(\w+)",$', parts, re.MULTILINE)
    assert named and set(named) == set(_core._PARTS)
    for name in named:
        part = _core._PARTS[name]
        assert isinstance(part if isinstance(part, types.ModuleType) else part(), types.ModuleType)


def test_the_list_of_what_the_runtime_exports_has_the_names_of_the_prelude():
    """`make public-api` compares all of it, but needs a toolchain that CI does not have."""
    prelude = (ROOT / "arraybridge-runtime" / "src" / "prelude.rs").read_text()
    exported = set()
    for path, group in re.findall(r"pub use ([\w:]+?)(?:::\{([^}]*)\})?;", prelude):
        names = group.split(",") if group else [path.rsplit("::", 1)[-1]]
        exported |= {name.strip() for name in names if name.strip()}
    listed = (ROOT / "tests" / "public-api.txt").read_text()
    found = re.findall(r"^pub.* arraybridge_runtime::prelude::(\w+)", listed, re.MULTILINE)
    assert {"Tensor", "DeviceView", "f16", "memory_type"} < exported
    assert exported == set(found)


def test_the_licences_of_all_crates_in_the_wheel_are_in_the_wheel():
    """`python tests/tools/licences.py --write` writes the file again."""
    text = (ROOT / "THIRD-PARTY-LICENSES.txt").read_text(encoding="utf-8")
    listed = set(re.findall(r"^(\S+) (\d\S+): (\S.*)$", text.split("=" * 80)[0], re.MULTILINE))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    assert listed and {crate[:2] for crate in listed} <= {(c["name"], c["version"]) for c in lock}
    for name, version, _ in listed:
        assert re.search(rf"^[^:\n]*\b{re.escape(f'{name} {version}')}(?:,|$)", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "THIRD-PARTY-LICENSES.txt" in project["license-files"]
    if shutil.which("cargo") is None:
        pytest.skip("cargo is needed to list the crates of the wheel")
    assert {crate[:2] for crate in listed} == licences.linked()


def test_the_conda_recipe_says_what_the_package_says():
    """It is YAML of one form, so that no parser is needed."""
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    parts = dict(re.findall(r"^  (\w+):((?:\n    .*)*)", recipe, re.MULTILINE))
    listed = {name: set(re.findall(r"- (.*)", text)) for name, text in parts.items()}
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, workspace = pyproject["project"], tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert f'version: "{workspace["workspace"]["package"]["version"]}"' in recipe
    joined = {requirement.replace(" ", "") for requirement in listed["run"]}
    assert joined == {"python", *project["dependencies"]}
    assert set(pyproject["build-system"]["requires"]) <= {
        requirement.replace(" ", "") for requirement in listed["host"]
    }
    assert f"license_file: [{', '.join(project['license-files'])}]" in recipe
    assert f"license: {project['license']}" in recipe
    assert f"name: {project['name']}" in recipe
