"""``python -m arraybridge doctor``: what it finds, what it concludes, and how it is written."""

import copy
import ctypes
import json
import os
import re
import sys
import tomllib
from importlib import metadata

import arraybridge as ab
import bridges
import pytest
from arraybridge import __main__ as command
from arraybridge._tools import child, doctor, page
from arraybridge._tools.doctor import details, drivers
from command_line import run

# Packages that are found before the installed ones.
FAKES = {
    "cupy": "import cupy_is_broken_inside",
    "jax": "import time; time.sleep(600)",
    "pyclesperanto": "import sys; sys.exit(3)",
    "tensorflow": "raise ImportError('libfoo.so.3: cannot open shared object file')",
    "torch": "import os; print('noise'); os.abort()",
}


def documented(heading, end="\n## "):
    """The keys in the first columns of the tables below a heading of docs/tools.md."""
    text = (bridges.ROOT / "docs" / "tools.md").read_text().split(heading)[1].split(end)[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_every_installed_framework_works_here():
    done = run("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"], done.stdout
    assert list(report["frameworks"]) == [framework["name"] for framework in ab.frameworks()]
    for name in bridges.INSTALLED:
        found = report["frameworks"][name]
        assert (found["status"], found["version"]) == ("works", bridges.VERSIONS[name]), found
        assert found["used"][0] == ("accelerator:0" if name == "pyclesperanto" else "host")
        assert "details_error" not in found, found
    for driver in ("cuda", "opencl"):
        assert "error" not in report[driver], report[driver]
    if "pyclesperanto" in bridges.INSTALLED:
        assert report["opencl"]["platforms"]
    assert report["schema"] == 1 and report["converters"] == len(ab.registered_pairs())
    assert all(len(line) <= 80 for line in page.doctor_page(report).splitlines())
    heading = "### The keys of `doctor --json`"
    assert {*report} <= documented(heading, "\nA framework has"), "docs/tools.md lacks a key"
    used = {key for found in report["frameworks"].values() for key in found}
    assert used <= documented("\nA framework has"), "docs/tools.md lacks a key"


def test_a_crash_a_hang_and_a_broken_installation_are_lines_of_the_report(tmp_path):
    for name, code in FAKES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    arguments = ("doctor", "--json", "--full", "--timeout", "8")
    done = run(*arguments, path=[tmp_path], CUDA_VISIBLE_DEVICES="")
    report = json.loads(done.stdout)
    errors = {name: found.get("error") for name, found in report["frameworks"].items()}
    assert done.returncode == 1 and not report["ok"]
    assert errors["torch"] == "import: crashed: the process was killed by SIGABRT"
    assert errors["jax"] == "import: hung: it reported nothing for 8 s"
    assert "libfoo.so.3: cannot open" in errors["tensorflow"]
    assert "No module named 'cupy_is_broken_inside'" in errors["cupy"]
    assert "SystemExit: 3" in errors["pyclesperanto"]
    assert report["frameworks"]["numpy"]["status"] == "works"
    faults = [each["text"] for each in report["findings"] if each["level"] == "fault"]
    assert len(faults) == len(FAKES)
    # Only what works is converted, and only what can be imported is put in an order.
    pairs = [(pair["name"], pair["status"]) for pair in report["pairs"]]
    assert pairs == [("numpy (host) -> numpy (host)", "works")] and report["orders"] == {}


CASES = """
import json, os, sys
from arraybridge._tools.child import reporter

report = reporter()
for name in ("first", "second", "third"):
    if name not in json.loads(sys.argv[1]):
        report(start=name)
        if name == "second":
            os.abort()
        report(name=name, status="passed")
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A package whose modules the parent starts instead of its own."""

    def write(**modules):
        (tmp_path / "made_up_tools").mkdir()
        for name, code in {"__init__": "", **modules}.items():
            (tmp_path / "made_up_tools" / f"{name}.py").write_text(code)

    monkeypatch.setattr(child, "__package__", "made_up_tools")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return write


def test_the_cases_after_a_crash_still_run(tools):
    tools(cases=CASES)
    found = {each["name"]: each for each in child.run_cases("cases", silence=60)}
    assert found["first"]["status"] == found["third"]["status"] == "passed"
    assert found["second"]["status"] == "failed" and "SIGABRT" in found["second"]["reason"]


def test_a_process_that_always_ends_at_the_same_place_is_not_started_for_ever(tools):
    start = "import os; from arraybridge._tools import child; child.reporter()(start='import')"
    tools(cases=f"{start}; os.abort()")
    found = list(child.run_cases("cases", silence=60))
    assert [each["name"] for each in found] == ["import", "import"]


def test_a_process_that_cannot_start_is_one_failure(tools):
    tools(cases="raise RuntimeError('not today')")
    (failure,) = child.run_cases("cases", silence=60)
    assert (failure["status"], failure["reason"]) == ("failed", "RuntimeError: not today")


FRAMEWORK = {"title": "CuPy", "memory": "accelerator", "status": "no device", "version": "14"}
FACTS = {
    "package": {"distribution": "arraybridge-rs", "folder": "/site", "original": None},
    "cuda": {"devices": [], "reason": "no CUDA driver"},
    "opencl": {"platforms": [], "reason": "no loader"},
    "settings": ab.configure(),
    "environment": {},
    "preallocation": {"jax": True, "tensorflow": True},
    "pairs": None,
    "orders": None,
}
GPU = {"index": 0, "name": "a made-up GPU", "memory_total": 80 << 30, "memory_free": 79 << 30}


def judged(framework=None, name="cupy", **facts):
    known = copy.deepcopy({**FACTS, **facts})
    known["frameworks"] = {name: {**FRAMEWORK, **(framework or {})}}
    return [(each["level"], each["text"]) for each in doctor.judge(known)]


def test_a_missing_gpu_and_a_missing_framework_are_nothing_to_report():
    assert judged() == judged({"details_error": "no driver"}) == []
    assert judged({"status": "missing"}, cuda={"devices": [GPU]}) == []


def test_the_original_package_is_reported():
    ((level, text),) = judged(package={**FACTS["package"], "original": "0.5.2"})
    assert level == "fault" and "arraybridge 0.5.2 is installed too" in text
    assert "--force-reinstall" in text


def test_a_gpu_that_a_framework_cannot_use_is_reported():
    cuda = {"devices": [GPU]}
    ((level, text),) = judged({"details_error": "driver too old"}, cuda=cuda)
    assert level == "fault" and "driver too old" in text and "1 GPU," in text
    torch = {"title": "PyTorch", "memory": "either", "status": "works", "build": "without CUDA"}
    ((level, text),) = judged(torch, cuda=cuda)
    assert level == "note" and "PyTorch finds none (without CUDA)" in text
    assert judged(torch, cuda=cuda, environment={"CUDA_VISIBLE_DEVICES": ""}) == []


def test_preallocation_is_reported_where_there_is_a_gpu():
    jax = {"status": "works", "devices": [{"id": "accelerator:0"}]}
    ((level, text),) = judged(jax, name="jax", cuda={"devices": [GPU]})
    assert level == "note" and "XLA_PYTHON_CLIENT_PREALLOCATE=false" in text
    off = {"jax": False, "tensorflow": False}
    assert judged(jax, name="jax", cuda={"devices": [GPU]}, preallocation=off) == []
    ((level, text),) = judged(jax, name="tensorflow")
    assert level == "note" and "TF_FORCE_GPU_ALLOW_GROWTH=true" in text


def test_dangers_that_were_met_are_reported():
    ((level, text),) = judged({"opencl_second": "crashed"}, name="tensorflow")
    assert level == "fault" and "Import pyclesperanto first" in text
    ((level, text),) = judged(orders={"OpenCL after TensorFlow": "crashed"})
    assert level == "note" and "tensorflow, then pyclesperanto crashed" in text
    ((level, text),) = judged(
        {"status": "works", "settings": {"soft_device_placement": True}}, name="tensorflow"
    )
    assert level == "note" and "soft placement" in text
    ((level, text),) = judged(pairs=[{"name": "a -> b", "status": "failed", "reason": "wrong"}])
    assert (level, text) == ("fault", "a -> b: wrong")


def test_a_pair_is_measured_and_its_values_are_checked():
    from arraybridge._tools.doctor import pairs

    found = pairs.measure("numpy", "host", "numpy", "host", None)
    assert (found["status"], found["route"], found["gb_per_s"]) == ("works", "keep", None)
    found = pairs.measure("numpy", "host", "numpy", "accelerator:0", None)
    assert found == {"status": "failed", "reason": "the result is on host"}


class FakeCuda:
    """The functions of libcuda and NVML on a machine with one GPU that does not exist."""

    init = 0

    def __getattr__(self, name):
        def call(*arguments):
            pointers = [value._obj for value in arguments if hasattr(value, "_obj")]
            if name == "cuInit":
                return self.init
            if name == "cuDriverGetVersion":
                pointers[0].value = 13020
            elif name == "nvmlDeviceGetCount_v2":
                pointers[0].value = 1
            elif name == "nvmlSystemGetDriverVersion":
                arguments[0].value = b"595.1"
            elif name == "nvmlDeviceGetName":
                arguments[1].value = b"a made-up GPU"
            elif name == "nvmlDeviceGetMemoryInfo":
                pointers[0][0], pointers[0][1] = 80 << 30, 79 << 30
            return 0

        return call


def test_fake_drivers_are_described(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeCuda())
    assert drivers.cuda() == {"cuda": "13.2", "driver": "595.1", "devices": [GPU]}
    monkeypatch.setattr(FakeCuda, "init", 100)
    assert drivers.cuda() == {
        "devices": [], "reason": "the CUDA driver finds no GPU", "broken": False,
    }  # fmt: skip
    monkeypatch.setattr(FakeCuda, "init", 803)
    assert drivers.cuda()["broken"] is True


def test_a_report_of_a_made_up_gpu_fits_80_columns():
    pair = {
        "name": "pyclesperanto (accelerator:0) -> tensorflow (accelerator:0)", "status": "works",
        "route": "copy", "how": "download, then upload", "reason": "a reason " * 12,
        "seconds": 0.0123, "gb_per_s": 1.36,
    }  # fmt: skip
    device = {"id": "accelerator:0", **GPU, "memory_pooled": 2 << 20}
    torch = {
        "title": "PyTorch", "memory": "either", "status": "works", "version": "2.15.0",
        "build": "CUDA 13.2", "used": ["host", "accelerator:0"], "devices": [device],
    }  # fmt: skip
    report = {
        **FACTS, "cuda": {"cuda": "13.2", "driver": "595.1", "devices": [GPU]},
        "package": {"distribution": "arraybridge-rs", "folder": "/site", "original": None},
        "arraybridge": "0.1.0", "python": "3.13.1", "numpy": "2.4.6", "platform": "Linux-" * 20,
        "cpus": 16, "memory_total": 128 << 30, "converters": 36,
        "environment": {"XLA_FLAGS": "--xla_something=1 " * 9},
        "frameworks": {"torch": torch, "cupy": {**FRAMEWORK, "install": "cupy-cuda13x"}},
        "pairs": [pair, {"name": "cupy (accelerator:0) -> numpy (host)", "status": "failed"}],
        "findings": [{"level": "note", "text": "a finding " * 30}],
    }  # fmt: skip
    text = page.doctor_page(report)
    assert all(len(line) <= 80 for line in text.splitlines()), text
    memory = "79.0 GiB of 80.0 GiB free, 2.0 MiB in the pool"
    for words in (memory, "12.3 ms", "1.4", "FAILED", "copy=auto"):
        assert words in " ".join(text.split())
    assert text.endswith("Frameworks: 1 work, 1 without a device. No fault.")


def test_frameworks_prints_the_table_that_was_built(capsys):
    assert command.main(["frameworks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ab.frameworks()
    assert command.main(["frameworks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [each["name"] for each in ab.frameworks()]


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.main(["--version"])
    assert capsys.readouterr().out == f"arraybridge {ab.__version__}\n"


class Fake:
    """A made-up module: each attribute is what it was given, or another one that can be called."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __getattr__(self, name):
        return Fake()

    def __call__(self, *arguments):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def answer(value):
    return lambda *arguments: value


FREE, TOTAL = GPU["memory_free"], GPU["memory_total"]
FAKE_MODULES = {
    "cupy": Fake(
        cuda=Fake(
            runtime=Fake(
                runtimeGetVersion=answer(13020), getDeviceCount=answer(1),
                getDeviceProperties=answer({"name": b"a made-up GPU"}),
            ),
            Device=answer(Fake(mem_info=(FREE, TOTAL))),
        ),
        get_default_memory_pool=answer(Fake(total_bytes=answer(512))),
    ),
    "torch": Fake(
        version=Fake(cuda="13.2"),
        cuda=Fake(
            is_available=answer(True), device_count=answer(1), memory_reserved=answer(512),
            mem_get_info=answer((FREE, TOTAL)), get_device_name=answer("a made-up GPU"),
        ),
    ),
    "jax": Fake(
        local_devices=answer([
            Fake(platform="cpu"),
            Fake(platform="gpu", device_kind="a made-up GPU",
                 memory_stats=answer({"bytes_limit": TOTAL, "pool_bytes": 512})),
        ]),
        default_backend=answer("gpu"), config=Fake(jax_enable_x64=False),
    ),
    "tensorflow": Fake(
        sysconfig=Fake(get_build_info=answer({"is_cuda_build": True, "cuda_version": "12.5"})),
        config=Fake(
            list_physical_devices=answer([Fake(name="/physical_device:GPU:0")]),
            get_soft_device_placement=answer(True),
            experimental=Fake(
                get_device_details=answer({"device_name": "a made-up GPU"}),
                get_memory_info=answer({"current": 512, "peak": 1024}),
            ),
        ),
    ),
}  # fmt: skip


MEMORY = {"memory_total": TOTAL, "memory_free": FREE}
DESCRIBED = {
    "cupy": ("CUDA runtime 13.2", MEMORY),
    "torch": ("CUDA 13.2", MEMORY),
    "jax": ("backend gpu", {"memory_total": TOTAL}),
    "tensorflow": ("CUDA 12.5", {}),
}


@pytest.mark.parametrize("name", FAKE_MODULES)
def test_fake_devices_are_described(name):
    found = details.DETAILS[name](FAKE_MODULES[name])
    build, memory = DESCRIBED[name]
    device = {"id": "accelerator:0", "name": "a made-up GPU", "memory_pooled": 512, **memory}
    assert (found["build"], found["devices"]) == (build, [device])


def test_stubs_of_a_module_that_is_not_there_are_an_error_without_a_traceback(
    capsys, tmp_path, monkeypatch
):
    for name, missing in (("no_such_module", "no_such_module"), ("no_such.module", "no_such")):
        with pytest.raises(SystemExit) as caught:
            command.main(["stubs", name])
        assert caught.value.code == 2
        assert f"the module {missing} does not exist;" in capsys.readouterr().err
    (tmp_path / "needs_more.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        command.main(["stubs", "needs_more"])


@pytest.mark.parametrize("name", ("numpy", "json", "math"))
def test_stubs_of_a_module_without_declared_functions_are_an_error_without_a_traceback(
    name, capsys
):
    with pytest.raises(SystemExit) as caught:
        command.main(["stubs", name])
    assert caught.value.code == 2
    assert f"{name} has no declared functions" in capsys.readouterr().err


# What Windows lacks, but for what Python and NumPy use themselves on this system.
WITHOUT_POSIX = """
import os, select, sys
for name in (
    "fork", "getpgid", "getpgrp", "getuid", "killpg", "nice", "pread", "pwrite", "setpgid",
    "setsid", "sysconf", "sysconf_names", "wait",
):
    delattr(os, name)
del select.poll
sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios")))
"""


@pytest.fixture
def without_posix(tmp_path):
    """A folder for the path: calls that Windows lacks are missing, and so is all but NumPy."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_POSIX)
    for name in set(FAKES) - {"jax"}:
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('gone', name={name!r})")
    return tmp_path


def test_doctor_needs_no_posix_calls(without_posix):
    (without_posix / "jax.py").write_text(FAKES["jax"])
    done = run("doctor", "--json", "--full", "--timeout", "8", path=[without_posix])
    report = json.loads(done.stdout)
    assert report["memory_total"] is None
    found = {name: report["frameworks"][name] for name in ("numpy", "jax")}
    assert found["numpy"]["status"] == "works"
    assert found["jax"]["error"] == "import: hung: it reported nothing for 8 s"
    assert [pair["status"] for pair in report["pairs"]] == ["works"]
    assert ", ?" in page.doctor_page(report)


def test_selftest_needs_no_posix_calls(without_posix):
    (without_posix / "jax.py").write_text("raise ModuleNotFoundError('gone', name='jax')")
    done = run("selftest", "--json", path=[without_posix])
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"], done.stdout
    groups = {check["group"] for check in report["checks"] if check["status"] == "passed"}
    assert groups >= {"values and sharing", "threads"}


def test_a_stale_stub_is_found(tmp_path, monkeypatch, capsys):
    code = "import arraybridge as ab\n\n@ab.numpy\ndef doubled(image):\n    return 2 * image\n"
    (tmp_path / "made_up_filters.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert command.main(["stubs", "made_up_filters"]) == 0
    written = capsys.readouterr().out
    file = tmp_path / "made_up_filters.pyi"
    check = ["stubs", "made_up_filters", "--check", str(file)]
    with pytest.raises(SystemExit) as caught:
        command.main(check)
    assert caught.value.code == 2 and "the stub cannot be read" in capsys.readouterr().err
    file.write_text(written)
    assert command.main(check) == 0 and capsys.readouterr() == ("", "")
    file.write_text(written.replace("image", "picture"))
    assert command.main(check) == 1
    said = capsys.readouterr()
    assert "-def doubled(picture: Any" in said.out and "+def doubled(image: Any" in said.out
    assert (
        f"is stale; write it again: python -m arraybridge stubs made_up_filters > {file}"
        in said.err
    )


@pytest.mark.parametrize(
    ("started", "name"),
    [("/bin/arraybridge", "arraybridge"), ("/x/__main__.py", "python -m arraybridge")],
)
def test_the_script_of_the_package_is_the_command_under_a_shorter_name(
    monkeypatch, capsys, started, name
):
    project = tomllib.loads((bridges.ROOT / "pyproject.toml").read_text())["project"]
    found = metadata.EntryPoint("", project["scripts"]["arraybridge"], "console_scripts").load()
    monkeypatch.setattr(sys, "argv", [started])
    with pytest.raises(SystemExit):
        found(["trace", "--help"])
    assert capsys.readouterr().out.startswith(f"usage: {name} trace ")
