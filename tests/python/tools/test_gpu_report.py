"""`make gpu`, as far as it can be tested without a GPU. The record that is read is made up."""

import copy
import json
import os
import select
import subprocess

import bridges
import gpu_cases
import gpu_present
import gpu_report
import gpu_run
import pytest

MADE_UP = json.loads((bridges.ROOT / "tests" / "gpu" / "made_up_record.json").read_text())
TESTS = """
import pytest

def test_a():
    pass

def test_b():
    assert 1 == 2

@pytest.fixture
def broken():
    raise KeyError("broken")

def test_c(broken):
    pass

def test_d():
    pytest.skip("no CuPy")
"""


def test_made_up_the_page_has_the_commit_the_versions_the_numbers_and_the_failures():
    text = gpu_report.page(MADE_UP)
    for words in (
        MADE_UP["commit"] + " with uncommitted changes, 2000-01-01",
        "| driver | 595.1, CUDA 13.2 |",
        "| GPU 0 | a made-up GPU, 80.0 GiB |",
        "| CuPy | 14.2.0, CUDA runtime 13.2: works on accelerator:0 |",
        "| PyTorch | missing |",
        "- selftest: 1 of 2 checks passed",
        "41 passed, 1 failed, 1 skipped",
        "- benchmark: 2 of 3 cases",
        "- compute-sanitizer: not installed",
        "copy | 1250.0 us | 13.4 | a made-up \\| reason |",
        "| cupy -> torch | 1.50 us | 3.00 us, dlpack | 0.50 |",
        "- 1: TensorFlow sees no GPU",
        "- two GPUs: there is only one",
    ):
        assert words in text, words
    for failure in gpu_report.failures(MADE_UP):
        assert "- " + " ".join(failure.split()) in text


def test_made_up_every_failure_counts():
    failures = gpu_report.failures(MADE_UP)
    assert failures == [
        "doctor: a made-up fault",
        "selftest: work in progress: cupy to jax: 7 of 9 values are wrong",
        "test: device.test_gpu.test_made_up: assert 1 == 2\nwhere",
        "bench: large, jax -> torch: a made-up error",
    ]
    for step in gpu_run.ENDS:
        record = copy.deepcopy(MADE_UP)
        record[step] = {"error": "it did not start"}
        assert f"{step}: it did not start" in gpu_report.failures(record)
        assert f"- {step}: it did not start" in gpu_report.page(record)


def test_made_up_a_driver_that_crashed_or_a_run_without_any_gpu_test_is_shown():
    record = copy.deepcopy(MADE_UP)
    record["doctor"]["cuda"] = {"error": "crashed: the process was killed by SIGSEGV"}
    text = gpu_report.page(record)
    assert "| driver | crashed: the process was killed by SIGSEGV |" in text
    assert "| CuPy | 14.2.0" in text and "| GPU 0 |" not in text
    record = copy.deepcopy(MADE_UP) | {
        "tests": {"passed": 0, "failed": [], "skipped": []}, "bench": {"outcomes": []},
    }  # fmt: skip
    record["selftest"]["gpus"] = []
    assert {
        "selftest: no framework finds a GPU",
        "test: no test that needs a GPU has passed",
        "bench: no pair could be measured",
    } <= set(gpu_report.failures(record))


@pytest.fixture
def tested(monkeypatch, tmp_path):
    """What `gpu_run` says of a file of tests."""
    monkeypatch.setattr(gpu_run, "ROOT", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu")

    def run(text, *arguments):
        marked = f"from pytest import mark\npytestmark = mark.gpu\n{text}"
        (tmp_path / "test_it.py").write_text(marked)
        return gpu_run.Run(tmp_path).pytest("tests", *arguments, "test_it.py")

    return run


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["one process", "pytest-xdist"])
def test_failed_and_skipped_tests_are_read_from_the_log(tested, processes):
    found = tested(TESTS, *processes)
    assert found["passed"] == 1 and "error" not in found
    reasons = {each["name"]: each["reason"] for each in found["failed"]}
    assert reasons.keys() == {"test_it.py::test_b", "test_it.py::test_c"}
    assert "assert 1 == 2" in reasons["test_it.py::test_b"]
    assert any("def test_b():" in each["text"] for each in found["failed"])
    assert found["skipped"] == [{"name": "test_it.py::test_d", "reason": "no CuPy"}]


def test_a_test_that_ends_its_process_leaves_the_others(tested):
    crash = "def test_crash():\n    import os\n    os.abort()\n"
    found = tested(TESTS + crash, "-n", "1")
    assert found["passed"] == 1
    assert any("crashed" in each["reason"] for each in found["failed"])
    alone = tested("def test_a():\n    pass\n" + crash)
    assert alone["passed"] == 1 and alone["error"].startswith("exit status -6")


def test_a_file_that_cannot_be_imported_is_a_failure(tested):
    found = tested("import a_module_that_is_not_there")
    assert "a_module_that_is_not_there" in found["failed"][0]["text"]


def test_without_a_gpu_nothing_is_run_and_nothing_is_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_present, "absence", lambda: "there is no CUDA driver")
    monkeypatch.setattr(gpu_run, "Run", lambda *options: pytest.fail("something was run"))
    out = tmp_path / "gpu-report.md"
    monkeypatch.setattr("sys.argv", ["gpu_run.py", "--out", str(out), "--work", str(tmp_path)])
    assert gpu_run.main() == 2
    assert list(tmp_path.iterdir()) == []
    assert "No GPU: there is no CUDA driver. Nothing was run" in capsys.readouterr().err


def test_a_step_that_does_not_do_its_work_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_run.sys, "executable", "false")
    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: "false")
    run = gpu_run.Run(tmp_path)
    for step in gpu_run.ENDS:
        assert getattr(run, step)()["error"].startswith("exit status 1"), step


def test_a_step_that_hangs_is_ended_with_the_processes_that_it_began(monkeypatch, tmp_path):
    pipe, hangs, readers = tmp_path / "pipe", tmp_path / "hangs", []
    os.mkfifo(pipe)
    hangs.write_text(f"#!/bin/sh\nsleep 60 > {pipe} & wait\n")
    hangs.chmod(0o755)

    class Process(subprocess.Popen):
        def wait(self, timeout=None):
            if timeout is not None:
                # This waits until the other process has opened it.
                readers.append(os.open(pipe, os.O_RDONLY))
            return super().wait(timeout)

    monkeypatch.setattr(gpu_run.subprocess, "Popen", Process)
    monkeypatch.setattr(gpu_run.sys, "executable", str(hangs))
    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: str(hangs))
    run = gpu_run.Run(tmp_path, budget=0)
    for step in gpu_run.ENDS:
        assert "exit status 124: no end after 0 s" in getattr(run, step)()["error"], step
        # There is an end if nobody is left who could write.
        assert select.select(readers[-1:], [], [], 30)[0], step
        os.close(readers.pop())


def test_the_record_and_the_page_are_written_after_each_step(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_present, "absence", lambda: None)
    found = []

    def step(name):
        def run(self):
            if found:
                record = json.loads((tmp_path / "record.json").read_text())
                assert [name for name in gpu_run.ENDS if "error" not in record[name]] == found
                assert f"{name}: it was not run" in (tmp_path / "page.md").read_text()
            found.append(name)
            return MADE_UP[name]

        return run

    for name in gpu_run.ENDS:
        monkeypatch.setattr(gpu_run.Run, name, step(name))
    options = ["--out", tmp_path / "page.md", "--work", tmp_path, "--commit", MADE_UP["commit"]]
    monkeypatch.setattr("sys.argv", ["gpu_run.py", *map(str, options)])
    assert gpu_run.main() == 1
    assert found == list(gpu_run.ENDS)
    assert f"Commit {MADE_UP['commit']}, " in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ("passed", {"state": "found nothing"}),
        ("skipped", {"error": "no test ran"}),
        ("failed", {"error": "1 tests failed under it"}),
    ],
)
def test_the_sanitizer_has_found_nothing_only_if_a_test_ran(monkeypatch, tmp_path, outcome, found):
    def pytest_run(self, step, *arguments, before):
        line = {"name": "test_it", "outcome": outcome, "why": {"reason": "made up"}}
        return gpu_run.outcomes(json.dumps(line))

    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: name)
    monkeypatch.setattr(gpu_run.Run, "pytest", pytest_run)
    assert gpu_run.Run(tmp_path).sanitizer() == found


def test_a_pair_whose_array_or_calls_cannot_be_made_is_an_outcome(monkeypatch, tmp_path):
    out = tmp_path / "bench.json"
    monkeypatch.setattr("sys.argv", ["gpu_cases.py", "--out", str(out)])
    monkeypatch.setattr(gpu_cases, "SIZES", {"small": (2, 2)})
    monkeypatch.setattr(gpu_cases, "pairs", lambda: [("absent", "numpy"), ("numpy", "absent")])
    gpu_cases.main()
    error = "ModuleNotFoundError: No module named 'absent'"
    assert json.loads(out.read_text()) == [
        {"group": "small", "name": "absent -> numpy", "error": error},
        {"group": "small", "name": "numpy -> absent", "error": error},
    ]
