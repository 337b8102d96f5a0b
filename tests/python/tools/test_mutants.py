"""The list of mutants in tests/mutants. `make mutants` builds and runs them."""

import tomllib

import bridges
import pytest

MUTANTS = [
    mutant
    for path in sorted((bridges.ROOT / "tests" / "mutants").glob("*.toml"))
    for mutant in tomllib.loads(path.read_text())["mutant"]
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["rule"])
def test_a_mutant_changes_one_place_of_the_source(mutant):
    source = (bridges.ROOT / mutant["file"]).read_text()
    assert source.count(mutant["old"]) == 1
    assert mutant["new"] != mutant["old"]


def test_every_mutant_names_tests_that_exist():
    for mutant in MUTANTS:
        assert bool(mutant.get("python")) != bool(mutant.get("rust")), mutant["rule"]
        for test in mutant.get("python", ()):
            file, _, name = test.partition("::")
            assert f"def {name}(" in (bridges.ROOT / file).read_text(), test


def test_the_faults_of_a_gpu_name_tests_and_mutants_that_exist():
    hazards = tomllib.loads((bridges.ROOT / "tests" / "gpu" / "hazards.toml").read_text())["hazard"]
    rules = {mutant["rule"] for mutant in MUTANTS}
    for hazard in hazards:
        assert hazard["tests"] and set(hazard["mutants"]) <= rules, hazard["what"]
        for test in hazard["tests"]:
            file, _, name = test.partition("::")
            source = (bridges.HERE / file).read_text()
            assert f"def {name}(" in source, test
