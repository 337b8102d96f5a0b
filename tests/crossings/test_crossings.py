"""Every two values of the dimensions meet in a row whose program does what NumPy says."""

import ast
import itertools

import crossings
import page
import program
import pytest
from arraybridge._declared import options
from cover import Cover, matches


@pytest.fixture(scope="module")
def workers():
    with crossings.Workers() as found:
        yield found


def test_every_option_of_declarations_has_a_value():
    texts = [
        value["options"]
        for table in program.TABLE.values()
        for value in table["values"].values()
        if "options" in value
    ]
    calls = [ast.parse(f"f({text})", mode="eval").body for text in texts]
    assert {word.arg for call in calls for word in call.keywords} == {*options._KNOWN}


@pytest.mark.parametrize("strength", [2, 3])
def test_rows_have_every_combination_that_rules_allow(strength):
    dimensions = {name: [f"{name}{i}" for i in range(3)] for name in "abcd"}
    rules = [{"a": "a0", "b": ["b1", "b2"]}, {"c": "not c1", "d": "d2"}]
    rows = Cover(dimensions, rules, strength).rows()
    assert rows == Cover(dimensions, rules, strength).rows()
    assert not [row for row in rows if any(matches(rule, row) for rule in rules)]
    for names in itertools.combinations(dimensions, strength):
        for values in itertools.product(*(dimensions[name] for name in names)):
            wanted = dict(zip(names, values, strict=True)).items()
            possible = any(
                wanted <= (row := dict(zip(dimensions, every, strict=True))).items()
                and not any(matches(rule, row) for rule in rules)
                for every in itertools.product(*dimensions.values())
            )
            assert any(wanted <= row.items() for row in rows) == possible
    assert len(rows) < (14 if strength == 2 else 40)


def test_the_documentation_says_what_is_refused():
    rules = program.RULES["refused"]
    assert not [r["text"] for r in rules if not page.says(r["page"], r["text"])]


def test_the_page_has_the_dimensions():
    assert page.of(page.PAGE.read_text()) == page.section(), "crossings.py --write"


BREAKS = {
    "a wrong value": ({}, "x * 1.5", "x * 1.25", "values"),
    "a wrong dtype": ({"dtype": "uint8"}, "result = f(image)", "result = f(image) * 1.0", "dtype"),
    "another framework": ({}, "@ab.numpy()", '@ab.numpy(output_type="torch")', "type"),
    "a lost label": (
        {"holder": "xarray", "output": "input"}, ".shape[-1]) / 2", ".shape[-1]) / 4", "labels",
    ),
    "a lost write": (
        {"returns": "in place"}, "result = f(image)", "result = f(image + 0)", "writes",
    ),
    "an unwanted write": ({}, "result = f(image)", "result = f(image); image[...] = 0", "writes"),
    "a raw error": ({}, "return x", "return y", "NameError"),
    "a refusal": ({}, "result = f(image)", 'ab.convert(image, "jax", device=9)', "Unavailable"),
    "an end of the process": ({}, "result =", "import os; os.abort(); result =", "SIGABRT"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_the_judge_sees(name, workers):
    values, text, broken, about = BREAKS[name]
    row = {**program.PLAIN, **values}
    written = program.program(row)
    assert workers.judge(row)["kind"] == "right"
    assert text in written
    verdict = workers.judge(row, written.replace(text, broken))
    assert verdict["kind"] != "right" and about in verdict["about"], verdict


def test_a_failing_row_is_reduced(workers):
    row = {
        **program.PLAIN,
        "returns": "mask",
        "mode": "no_grad",
        "memory": "once",
        "second": "number",
    }
    judge = workers.judge
    fails = {"mode": "no_grad", "second": "number"}
    workers.judge = lambda row: {
        "kind": "wrong" if fails.items() <= row.items() else "right",
        "about": "",
    }
    try:
        assert crossings.short(workers.reduced(row, workers.judge(row))[0]) == fails
    finally:
        workers.judge = judge


def test_what_is_refused_names_a_way_out(workers):
    rows = list(crossings.refused())
    assert len(rows) > 300
    wrong = list(crossings.failures(workers, workers.map(rows)))
    assert not wrong, crossings.report(wrong)


def test_every_two_values_meet(workers):
    wrong = list(crossings.failures(workers, workers.map(crossings.covering())))
    assert not wrong, crossings.report(wrong)


def test_known_failures_still_fail(workers):
    judged = workers.map(crossings.known_rows())
    mended = [crossings.short(row) for row, verdict in judged if verdict["kind"] == "right"]
    assert not mended, f"these pass now, so take them out of known.toml: {mended}"
