"""``python -m arraybridge selftest``: it passes here, and each of its checks can fail."""

import contextlib
import json
import types

import arraybridge as ab
import bridges
import numpy as np
import pytest
from arraybridge._tools import arrays, page
from arraybridge._tools.selftest import checks
from command_line import run

HOST = ("numpy", "host")
convert = ab.convert


def test_it_says_what_was_run_and_what_was_not(tmp_path):
    for name in ("cupy", "jax", "tensorflow"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('gone', name={name!r})")
    (tmp_path / "torch.py").write_text("import os; os.abort()")
    done = run("selftest", "--json", path=[tmp_path])
    report = json.loads(done.stdout)
    failed = {each["name"]: each for each in report["checks"] if each["status"] == "failed"}
    assert done.returncode == 1 and not report["ok"] and list(failed) == ["import of torch"]
    assert "SIGABRT" in failed["import of torch"]["reason"]
    passed = {each["name"] for each in report["checks"] if each["status"] == "passed"}
    assert "values and sharing: numpy on host to numpy on host" in passed
    not_tried = {each["name"]: each["reason"] for each in report["not_tried"]}
    assert not_tried["jax"] == not_tried["cupy"] == "not installed"
    assert report["gpus"] == [] and not_tried["everything on a GPU"]
    about = (bridges.ROOT / "docs" / "tools.md").read_text().split("## selftest")[1]
    keys = {*report, *(key for check in report["checks"] for key in check)}
    assert all(f"`{key}`" in about for key in keys), "docs/tools.md lacks a key"
    text = page.selftest_page(report)
    assert "NO CHECK USED A GPU" in text and "1 of" in text.splitlines()[-1]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_checks_pass_here(monkeypatch):
    monkeypatch.setattr(checks, "DTYPES", ("bool", "float32", "complex64"))
    places = {name: arrays.places(name) for name in bridges.INSTALLED}
    with bridges.x64(True):
        for group, name, check in checks.checks(places):
            if group != "out of memory":
                assert check() > 0, name


@pytest.mark.filterwarnings("ignore::arraybridge.OomFallbackWarning")
def test_every_retry_is_checked():
    assert checks.check_ladder(*HOST) == 4


@pytest.fixture
def wrong(monkeypatch):
    """Replace `convert` by a function of the array and the keywords."""
    return lambda function: monkeypatch.setattr(
        ab, "convert", lambda data, target, **options: function(data, target, **options)
    )


def test_a_wrong_value_is_seen(wrong, monkeypatch):
    monkeypatch.setattr(checks, "DTYPES", ("float32",))
    wrong(lambda data, target, **options: convert(data * 2, target, **options))
    with pytest.raises(AssertionError, match="values are wrong"):
        checks.check_pair(HOST, HOST, None)
    with pytest.raises(AssertionError, match="values are wrong"):
        checks.check_threads([HOST], {"numpy": ["host"]})


def test_a_wrong_dtype_or_shape_is_seen():
    with pytest.raises(AssertionError, match="dtype is float64 instead of float32"):
        checks.same(np.zeros(3), np.zeros(3, "float32"))
    with pytest.raises(AssertionError, match="shape"):
        checks.same(np.zeros(3), np.zeros((1, 3)))


def test_a_copy_that_is_called_shared_is_seen(wrong):
    wrong(lambda data, target, **options: convert(data, target, **options).copy())
    with pytest.raises(AssertionError, match="the record has sharing, but the memory was copied"):
        checks.check_pair(HOST, HOST, None)


def test_memory_that_is_shared_although_a_copy_was_asked_for_is_seen(wrong, monkeypatch):
    def share(data, target, **options):
        convert(data, target, **options)
        return data

    wrong(share)
    with pytest.raises(AssertionError, match="the record has a copy, but the memory was shared"):
        checks.check_pair(HOST, HOST, None)
    monkeypatch.setattr(arrays, "address", lambda name, array: None)
    with pytest.raises(AssertionError, match="a copy, and a write to the source changed"):
        checks.check_pair(HOST, HOST, None)


def test_a_refused_dtype_that_every_framework_has_is_seen(wrong):
    def refuse(data, target, **options):
        raise ab.UnsupportedDtypeError("numpy", target, "convert", "made up")

    wrong(refuse)
    with pytest.raises(AssertionError, match="UnsupportedDtypeError.*made up"):
        checks.check_pair(HOST, HOST, None)
    takes = checks.TABLES["pyclesperanto"].takes
    assert not takes(np.zeros((4, 6), "float64")) and not takes(np.zeros((0, 3), "float32"))
    assert takes(np.zeros((4, 6), "float32"))


def test_a_dtype_that_tensorflow_keeps_on_the_host_may_be_refused_elsewhere(wrong, monkeypatch):
    def refuse(data, target, **options):
        raise ab.DeviceUnavailableError("numpy", target, "device", "made up")

    def make(name, array, place="host"):
        if name == "numpy":
            return array.copy()
        kept = "CPU" if array.dtype == "int32" else "GPU"
        device = f"/device:{kept}:0"
        return types.SimpleNamespace(backing_device=device, numpy=lambda: array)

    wrong(refuse)
    monkeypatch.setattr(arrays, "make", make)
    gpu = ("tensorflow", "accelerator:0")
    monkeypatch.setattr(checks, "DTYPES", ("int32",))
    assert checks.check_pair(HOST, gpu, gpu[1]) > 0
    monkeypatch.setattr(checks, "DTYPES", ("float32",))
    with pytest.raises(AssertionError, match="DeviceUnavailableError"):
        checks.check_pair(HOST, gpu, gpu[1])


def test_a_function_that_receives_other_arrays_is_seen(torch, monkeypatch):
    monkeypatch.setattr(ab, "torch", lambda **options: lambda function: function)
    with pytest.raises(AssertionError, match=r"was called with \['numpy'\]"):
        checks.check_declared("torch", [HOST])


def test_a_retry_that_is_not_made_is_seen(monkeypatch):
    monkeypatch.setattr(
        ab, "numpy", lambda **options: ab.memory_types("numpy", "numpy", oom_recovery=False)
    )
    with pytest.raises(MemoryError, match="made up by the selftest"):
        checks.check_ladder(*HOST)


def test_a_conversion_that_does_not_wait_is_seen(wrong, monkeypatch):
    monkeypatch.setattr(checks, "LONG", (8, 8))
    assert checks.check_order(HOST, HOST, None) == checks.LONG_ROUNDS
    monkeypatch.setattr(checks, "side_stream", lambda *end: contextlib.nullcontext())
    assert checks.check_side_stream(HOST, HOST, None) == checks.LONG_ROUNDS
    wrong(lambda data, target, **options: convert(data - 1, target, **options))
    for check in (checks.check_order, checks.check_side_stream):
        with pytest.raises(AssertionError, match="values are wrong"):
            check(HOST, HOST, None)


def test_gpu_checks_are_made_for_every_gpu_and_no_other_device():
    places = {"numpy": ["host"], "torch": ["host", "accelerator:0", "accelerator:1"]}
    groups = [group for group, *_ in checks.checks(places)]
    assert groups.count("values and sharing") == 16
    assert groups.count("work in progress") == groups.count("side streams") == 8
    opencl = {"numpy": ["host"], "pyclesperanto": ["accelerator:0"]}
    assert "work in progress" not in [group for group, *_ in checks.checks(opencl)]
