"""The list of mutants in tests/mutants. `make mutants` builds and runs them, and so does
`make mutants-simulated-gpu` on the simulated CUDA.
"""

import re
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
        assert not (mutant.get("python") and mutant.get("rust")), mutant["rule"]
        assert mutant.keys() & {"python", "rust", "simulated"}, mutant["rule"]
        for test in (*mutant.get("python", ()), *mutant.get("simulated", ())):
            file, _, name = test.partition("::")
            assert f"def {name}(" in (bridges.ROOT / file).read_text(), test


def test_every_rule_of_streams_has_a_mutant_on_the_simulated_cuda():
    page = (bridges.ROOT / "ARCHITECTURE.md").read_text()
    section = page.partition("\n## Streams\n")[2].partition("\n## ")[0]
    rules = {int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)}
    covered = {mutant.get("streams", 0) for mutant in MUTANTS if mutant.get("simulated")}
    assert rules and rules == covered - {0}


def test_the_faults_of_a_gpu_name_tests_and_mutants_that_exist():
    hazards = tomllib.loads((bridges.ROOT / "tests" / "gpu" / "hazards.toml").read_text())["hazard"]
    rules = {mutant["rule"] for mutant in MUTANTS}
    for hazard in hazards:
        assert hazard["tests"] and set(hazard["mutants"]) <= rules, hazard["what"]
        for test in hazard["tests"]:
            file, _, name = test.partition("::")
            source = (bridges.HERE / file).read_text()
            assert f"def {name}(" in source, test
