"""Use an installed wheel. It needs nothing but the wheel and its dependencies.

python tests/tools/wheel_smoke.py
"""

import pickle
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from importlib.resources import files

import arraybridge as ab
import numpy as np


@ab.numpy(on_oom="clear")
def doubled(image):
    return image * 2


def check_files():
    package = files("arraybridge")
    assert package.joinpath("py.typed").is_file() and package.joinpath("__init__.pyi").is_file()
    found = distribution("arraybridge-rs")
    assert found.version == ab.__version__
    names = {file.name for file in found.files}
    assert names >= {"LICENSE", "THIRD-PARTY-LICENSES.txt"}, names
    # The wheel is the one under test, not the folder of the sources.
    assert "site-packages" in str(package), package


def check_conversions():
    image = np.arange(12, dtype="uint16").reshape(3, 4)
    assert ab.convert(image, "numpy") is image
    assert (ab.convert(image, "numpy", dtype="float32") == image).all()
    assert ab.convert(image[:, ::2], "numpy", copy=True).flags.c_contiguous
    assert (np.from_dlpack(ab.Tensor(image)) == image).all()
    assert (ab.stack_slices(list(image[None]), "numpy", 0) == image[None]).all()
    assert len(ab.registered_pairs()) == len(ab.frameworks()) ** 2
    try:
        ab.convert(image, "cupy")
    except ab.FrameworkNotInstalledError as error:
        assert "pip install" in str(error)
    else:
        raise AssertionError("a clean environment has no CuPy")


def check_functions():
    image = np.ones((3, 4), "uint8")
    trace = ab.trace()
    with trace:
        assert (doubled(image) == 2).all() and doubled(image=image).dtype == "uint8"
        assert doubled(image, dtype_conversion="float32").dtype == "float32"
        assert doubled(np.stack([image] * 2), slice_by_slice=True).shape == (2, 3, 4)
    assert [span.how for span in trace.spans] == ["doubled"] * 4
    assert {span.file for span in trace.spans} == {__file__}
    assert pickle.loads(pickle.dumps(trace.records)) == trace.records
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def check_commands():
    for command in (["--version"], ["frameworks", "--json"]):
        done = subprocess.run([sys.executable, "-m", "arraybridge", *command], capture_output=True)
        assert done.returncode == 0 and done.stdout, done.stderr.decode()


if __name__ == "__main__":
    for check in (check_files, check_conversions, check_functions, check_commands):
        check()
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not gil, "importing the package has switched the GIL on"
    python = f"Python {sys.version.split()[0]}" + ("" if gil else ", without the GIL")
    print(f"arraybridge {ab.__version__} works with {python}")
