"""The conformance suite finds nothing wrong with this wheel, and would find what is wrong.

The suite runs in a process of its own, with the filters for warnings that it sets.
One group is left to `make conformance`, since test_matrix.py says more.
"""

import json
import subprocess
import sys

import bridges

FOLDER = bridges.ROOT / "tests" / "conformance"
LEFT_OUT = "conversion"


def conform(tmp_path, module, *arguments):
    """Run the suite, and return the cases with their results."""
    program = [sys.executable, str(FOLDER / "run.py"), "--module", module, "--out", str(tmp_path)]
    ran = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads((tmp_path / f"{module}.json").read_text())["cases"]


def wrong(cases):
    return [f"{c['id']}: {c['status']}: {c['got']}" for c in cases if c["status"] != "right"]


def test_every_case_of_the_suite_is_right(tmp_path):
    bridges.need(*bridges.CPU_FRAMEWORKS)
    cases = conform(tmp_path, "arraybridge", "--leave-out", LEFT_OUT)
    assert len(cases) > 2000
    assert not wrong(cases), "\n".join(wrong(cases)[:25])


class Nonsense:
    """A module that never does what it should, and never fails."""

    __version__ = "0"
    __name__ = "nonsense"

    def __getattr__(self, name):
        if name.startswith("_") or name == "HOST":
            raise AttributeError(name)
        return lambda *args, **kwargs: Nonsense.answer

    @staticmethod
    def answer(*args, **kwargs):
        return object()


def test_a_module_that_answers_everything_with_nonsense_is_right_in_no_case(monkeypatch):
    bridges.need(*bridges.CPU_FRAMEWORKS)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setitem(sys.modules, "nonsense", Nonsense())
    from judge import judge
    from subject import Subject
    from suite import cases

    subject = Subject("nonsense")
    # One of ten: they differ little.
    right = [c["id"] for c in cases()[::10] if judge(subject, c)[0] in ("right", "missing")]
    assert not right, right[:25]


def test_a_case_that_ends_the_process_is_counted_and_the_others_go_on(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    import run

    (tmp_path / "worker.py").write_text("""
import json, os, sys
cases = json.load(open(sys.argv[2]))
say = lambda **message: print(json.dumps(message), flush=True)
say(version="1", path="")
for number, case in cases:
    say(start=number)
    if case["id"] == "dies":
        os.abort()
    say(number=number, status="right", got="")
say(end=True)
""")
    monkeypatch.setattr(run, "HERE", tmp_path)
    names = ("before", "dies", "after")
    made = [{"id": name, "group": "g"} for name in names]
    monkeypatch.setattr(run.suite, "cases", lambda: [dict(case) for case in made])
    found = [(c["id"], c["status"]) for c in run.run("any", sys.executable)["cases"]]
    assert found == [("before", "right"), ("dies", "crashed"), ("after", "right")]
