"""The examples of the original package's documentation do what it promises."""

import tomllib

import bridges
import numpy as np
import pytest

TABLE = tomllib.loads((bridges.ROOT / "tests" / "upstream" / "examples.toml").read_text())
EXAMPLES = TABLE["example"]


def is_installed(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def need_all(names):
    for name in names:
        if name.startswith("no "):
            if is_installed(name.removeprefix("no ")):
                pytest.skip(f"{name.removeprefix('no ')} is installed")
        else:
            bridges.need(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", EXAMPLES, ids=[example["name"] for example in EXAMPLES])
def test_an_example_of_the_original_documentation_does_what_is_promised(example):
    need_all(example.get("needs", []))
    space = {"np": np, "__name__": "example"}
    if "differs" not in example:
        exec(example["code"], space)
        exec(example["check"], space)
        return
    with pytest.raises((AssertionError, ValueError)):
        exec(example["code"], space)
        exec(example["check"], space)


def test_each_example_has_a_name_of_its_own_and_each_block_is_run_or_left_out():
    names = [example["name"] for example in EXAMPLES]
    assert len(set(names)) == len(names)
    run = {place for example in EXAMPLES for place in example["from"]}
    left_out = [place for entry in TABLE["left_out"] for place in entry["from"]]
    assert not run & set(left_out) and len(set(left_out)) == len(left_out)
    by_version = {
        v: sum(p.startswith(f"{v} ") for p in run | set(left_out)) for v in ("0.2.8", "0.2.11")
    }
    assert by_version == {"0.2.8": 226, "0.2.11": 19}


def test_each_reason_why_a_test_of_the_original_fails_is_on_the_migration_page():
    page = (bridges.ROOT / "docs" / "migration.md").read_text()
    listed = tomllib.loads((bridges.ROOT / "tests" / "upstream" / "failures.toml").read_text())
    versions: dict[str, set[str]] = {}
    for group in listed["failures"]:
        versions.setdefault(group["why"], set()).update(group["versions"])
    for why, given in versions.items():
        ordered = sorted(given, key=lambda version: [int(part) for part in version.split(".")])
        assert f"| {why} | {', '.join(ordered)} |" in page
