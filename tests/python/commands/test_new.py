"""`python -m arraybridge new` begins a crate that builds, and whose tests pass."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib

import arraybridge as ab
import bridges
import pytest
from arraybridge.__main__ import main
from arraybridge._tools import new
from arraybridge.stubs import stub
from command_line import run


@pytest.fixture
def crate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-filters", "--source", str(bridges.ROOT)]) == 0
    return tmp_path / "my-filters"


@pytest.fixture
def build(crate, monkeypatch):
    """Build the crate, with other code if it is given, and put its module beside the sources."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is needed to build an extension")
    # The dependencies are those of tests/extension, which are built already.
    shutil.copy(bridges.ROOT / "tests" / "extension" / "Cargo.lock", crate)
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    monkeypatch.setenv("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")

    def built(code=None):
        if code is not None:
            (crate / "src" / "lib.rs").write_text(code)
        return shutil.copy(bridges.built(str(crate)), crate / "my_filters.so")

    return built


def test_new_a_crate_builds_and_its_tests_pass(crate, build):
    assert (crate / "my_filters.pyi").read_text() == stub(bridges.module(build()))
    check = "python -m arraybridge stubs my_filters --check my_filters.pyi"
    assert f"- run: {check}" in (crate / ".github" / "workflows" / "ci.yml").read_text()
    checked = run(*check.split()[3:], path=[crate], cwd=crate)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    path = os.pathsep.join([str(crate), *sys.path])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=crate, env=environment, capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    formatted = subprocess.run(["cargo", "fmt", "--check"], cwd=crate, check=False)
    assert formatted.returncode == 0


ALONE = """
use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

#[pyfunction]
fn pixels() -> Result<Vec<u8>> {
    let intensities = Tensor::from_vec(vec![0.5_f32, 2.7, 300.0], &[3])?;
    Ok(intensities.cast(DType::Uint8)?.try_into_array()?.into_iter().collect())
}

#[pymodule]
fn my_filters(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pixels, module)?)
}
"""


def test_new_a_module_that_exports_no_function_casts_with_the_package(crate, build):
    build(ALONE)
    call = "import sys; sys.path.insert(0, sys.argv[1]); import my_filters as m\n"
    bridges.survives(call + "assert list(m.pixels()) == [0, 3, 255]", str(crate))
    missing = """
        sys.modules["arraybridge"] = None
        for attempt in range(2):
            try:
                m.pixels()
            except ValueError as error:
                assert "with its feature `casts`" in str(error), error
            else:
                raise AssertionError("there are no casts")
    """
    bridges.survives(call + textwrap.dedent(missing), str(crate))


def test_new_a_crate_is_told_how_to_get_16_bit_floats(crate, build, capfd):
    code = (crate / "src" / "lib.rs").read_text()
    with pytest.raises(subprocess.CalledProcessError):
        build(code.replace("f32>", "f16>"))
    said = capfd.readouterr().err
    assert "f16` is not an element type" in said, said
    assert "with the feature `half` of arraybridge-runtime" in said
    assert "unstable" not in said


ON_CUDA = """
use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

#[memory_type(cupy)]
fn doubled(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
    DeviceArray::zeros(image.shape(), stream)
}

#[memory_type(cupy)]
fn made() -> Result<Vec<DeviceArray<f32>>> {
    Ok(Vec::new())
}

#[pyclass]
struct Model;

#[memory_methods]
#[pymethods]
impl Model {
    #[memory_type(cupy)]
    fn apply(&self, out: Option<DeviceViewMut<'_, f32>>) -> bool {
        out.is_some()
    }
}
"""


def test_new_a_crate_is_told_how_to_get_functions_on_cuda_memory(crate, build, capfd):
    with pytest.raises(subprocess.CalledProcessError):
        build(ON_CUDA)
    said = capfd.readouterr().err
    assert said.count("need the feature `cuda` of arraybridge-runtime") == 3, said
    assert "cannot find" not in said and "error[" not in said, said


WITHOUT_UNSAFE_CODE = """
#![forbid(unsafe_code)]
use arraybridge_runtime::prelude::*;

#[memory_type(numpy, detach)]
fn total(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

#[memory_type(numpy, unsafe(detach))]
fn total_in_any_case(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}
"""


def test_new_a_crate_may_forbid_unsafe_code(crate, build, capfd):
    with pytest.raises(subprocess.CalledProcessError):
        build(WITHOUT_UNSAFE_CODE)
    said = capfd.readouterr().err
    assert said.count("error: usage of an `unsafe` block\n  --> src/lib.rs:10:22") == 1, said
    assert "due to 1 previous error" in said, said
    build(WITHOUT_UNSAFE_CODE.replace("unsafe(detach)", "detach"))


ON_HOST = """
use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

#[memory_type(numpy)]
fn total(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

#[memory_type(numpy, returns = input)]
fn doubled(image: ArrayView2<'_, f32>) -> Array2<f32> {
    &image * 2.0
}

#[memory_type(cupy)]
fn axes(image: &Tensor) -> usize {
    image.shape().len()
}

#[pymodule]
fn my_filters(module: &Bound<'_, PyModule>) -> PyResult<()> {
    arraybridge_runtime::python::export(module)
}
"""


def test_new_a_crate_without_cuda_reads_memory_of_a_device_through_its_framework_only(crate, build):
    build(ON_HOST)
    code = """
        import sys
        sys.path[:0] = sys.argv[1:]
        import fake_cupy, numpy as np, arraybridge as ab, my_filters
        cupy = fake_cupy.mount()
        fake_cupy.SHARES = True
        image = np.arange(6, dtype="f4").reshape(2, 3)
        on_device = cupy.ndarray(image.copy())

        assert my_filters.total(on_device) == 15.0
        result = my_filters.doubled(on_device)
        assert type(result) is cupy.ndarray and (result._host == 2 * image).all()
        assert not [call for call in fake_cupy.LOG if call.startswith("export")], fake_cupy.LOG

        class Foreign:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, **options):
                raise AssertionError("memory is not opened that cannot be ordered")

        fake_cupy.LOG.clear()
        for array in (on_device, Foreign()):
            try:
                my_filters.axes(array)
            except ab.DeviceUnavailableError as error:
                assert "enable the feature `cuda` of arraybridge-runtime" in str(error), error
            else:
                raise AssertionError("the memory was opened")
        assert not [call for call in fake_cupy.LOG if call.startswith("export")], fake_cupy.LOG
    """
    bridges.survives(textwrap.dedent(code), str(crate), str(bridges.ROOT / "tests" / "fakes"))


def test_new_a_crate_names_the_versions_that_it_was_made_for(crate, tmp_path):
    workspace = tomllib.loads((bridges.ROOT / "Cargo.toml").read_text())["workspace"]
    shared = workspace["dependencies"]
    cargo = tomllib.loads((crate / "Cargo.toml").read_text())
    features = {"default-features": False}
    assert cargo["dependencies"] == {
        "arraybridge-runtime": {"path": str(bridges.ROOT / "arraybridge-runtime"), **features},
        "ndarray": shared["ndarray"],
        "pyo3": shared["pyo3"],
    }
    assert cargo["package"]["rust-version"] == workspace["package"]["rust-version"]
    project = tomllib.loads((crate / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == [f"arraybridge-rs>={ab.__version__},<0.2"]
    following = {"0.1.0": "0.2", "0.9.3": "0.10", "1.2.3": "2"}
    assert {version: new._next_minor(version) for version in following} == following
    assert main(["new", "released"]) == 0
    cargo = tomllib.loads((tmp_path / "released" / "Cargo.toml").read_text())
    assert cargo["dependencies"]["arraybridge-runtime"] == {"version": ab.__version__, **features}
    for file in crate.rglob("*"):
        left = re.findall(r"\$[a-z]+", file.read_text()) if file.is_file() else []
        assert not left, (file, left)


def test_new_a_name_that_cannot_be_used_is_refused(crate, capsys):
    for name, text in [
        ("My-Filters", "lower-case"),
        ("3d", "begin with a letter"),
        ("class", "cannot name"),
        ("json", "another module"),
        ("arraybridge", "another module"),
        (str(crate), "already exists"),
    ]:
        assert new.run(name, None) == 1
        assert text in capsys.readouterr().err
    assert new.run("fresh", str(crate)) == 1
    assert "no arraybridge-runtime" in capsys.readouterr().err


def test_new_what_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.symlink("nowhere", "dangling")
    assert main(["new", "dangling"]) == 1
    assert "dangling already exists" in capsys.readouterr().err
    assert main(["new", "a" * 300]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_new_the_path_of_the_sources_is_a_string_of_toml(tmp_path, monkeypatch):
    source = tmp_path / 'a "quoted" folder'
    (source / "arraybridge-runtime").mkdir(parents=True)
    (source / "arraybridge-runtime" / "Cargo.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine", "--source", str(source)]) == 0
    manifest = tomllib.loads((tmp_path / "mine" / "Cargo.toml").read_text())
    path = manifest["dependencies"]["arraybridge-runtime"]["path"]
    assert path == str(source / "arraybridge-runtime")
