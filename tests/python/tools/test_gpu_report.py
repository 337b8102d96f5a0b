"""`make gpu`, as far as it can be tested without a GPU. The record that is read is made up."""

import copy
import json
import subprocess
from pathlib import Path

import bridges
import gpu_cases
import gpu_present
import gpu_report
import gpu_run
import pytest

MADE_UP = json.loads((bridges.ROOT / "tests" / "gpu" / "made_up_record.json").read_text())
CASE = "tests.python.device.test_gpu"
JUNIT = f"""<testsuites><testsuite>
<testcase classname="{CASE}" name="test_a" />
<testcase classname="{CASE}" name="test_b"><failure message="wrong" /></testcase>
<testcase classname="{CASE}" name="test_c"><error message="broken" /></testcase>
<testcase classname="{CASE}" name="test_d"><skipped message="no CuPy" /></testcase>
</testsuite></testsuites>"""


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
    for step in ("doctor", "selftest", "tests", "bench", "sanitizer"):
        record = copy.deepcopy(MADE_UP)
        record[step] = {"error": "it did not start"}
        assert f"{step}: it did not start" in gpu_report.failures(record)
        assert f"- {step}: it did not start" in gpu_report.page(record)


def test_made_up_a_driver_that_crashed_is_shown_with_its_error():
    record = copy.deepcopy(MADE_UP)
    record["doctor"]["cuda"] = {"error": "crashed: the process was killed by SIGSEGV"}
    text = gpu_report.page(record)
    assert "| driver | crashed: the process was killed by SIGSEGV |" in text
    assert "| CuPy | 14.2.0" in text and "| GPU 0 |" not in text


def test_made_up_a_run_without_any_gpu_test_is_a_failure():
    record = copy.deepcopy(MADE_UP)
    record["selftest"]["gpus"] = []
    record["tests"] = {"passed": 0, "failed": [], "skipped": []}
    record["bench"] = {"outcomes": []}
    failures = gpu_report.failures(record)
    assert "selftest: no framework finds a GPU" in failures
    assert "test: no test that needs a GPU has passed" in failures
    assert "bench: no pair could be measured" in failures


def test_failed_and_skipped_tests_are_read_from_pytests_report():
    assert gpu_run.outcomes(JUNIT) == {
        "passed": 1,
        "failed": [
            {"name": "device.test_gpu.test_b", "reason": "wrong"},
            {"name": "device.test_gpu.test_c", "reason": "broken"},
        ],
        "skipped": [{"name": "device.test_gpu.test_d", "reason": "no CuPy"}],
    }


def test_without_a_gpu_nothing_is_run_and_nothing_is_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(gpu_present, "absence", lambda: "there is no CUDA driver")
    monkeypatch.setattr(gpu_run, "run", lambda *command: pytest.fail("something was run"))
    out = tmp_path / "gpu-report.md"
    monkeypatch.setattr("sys.argv", ["gpu_run.py", "--out", str(out), "--work", str(tmp_path)])
    assert gpu_run.main() == 2
    assert list(tmp_path.iterdir()) == []
    assert "No GPU: there is no CUDA driver. Nothing was run" in capsys.readouterr().err


def test_a_step_that_does_not_do_its_work_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_run.sys, "executable", "false")
    assert gpu_run.command("selftest")["error"].startswith("exit status 1")
    assert gpu_run.tests(tmp_path)["error"].startswith("exit status 1")
    assert gpu_run.bench(tmp_path)["error"].startswith("exit status 1")
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(gpu_run.sys, "executable", str(hangs))
    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: str(hangs))
    monkeypatch.setattr(gpu_run, "TIMEOUT_S", 0)
    error = {"error": "exit status 124: no end after 0 s"}
    assert gpu_run.command("selftest") == error
    assert gpu_run.tests(tmp_path) == gpu_run.bench(tmp_path) == error
    assert gpu_run.sanitizer(tmp_path) == error


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("<testcase />", {"state": "found nothing"}),
        ("<testcase><skipped /></testcase>", {"error": "no test ran"}),
        ("", {"error": "no test ran"}),
    ],
)
def test_the_sanitizer_has_found_nothing_only_if_a_test_ran(monkeypatch, tmp_path, case, found):
    def run(*command):
        (option,) = (part for part in command if part.startswith("--junitxml="))
        Path(option.partition("=")[2]).write_text(f"<testsuites>{case}</testsuites>")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(gpu_run.shutil, "which", lambda name: name)
    monkeypatch.setattr(gpu_run, "run", run)
    assert gpu_run.sanitizer(tmp_path) == found


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
