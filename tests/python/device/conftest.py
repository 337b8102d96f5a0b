"""The fake driver of tests/fakes, for every test that runs on it."""

import shutil
import subprocess
import sys
import textwrap

import bridges
import faked
import pytest

DRIVER = """
import fake_cupy, fake_torch, fake_tensorflow, fake_pyclesperanto, fake_device
driver = fake_cupy.attach()
cupy, torch = fake_cupy.mount(), fake_torch.mount()
tf, cle = fake_tensorflow.mount(), fake_pyclesperanto.mount()
import bridges, gc, warnings, numpy as np, arraybridge as ab
warnings.simplefilter("error")
image = np.arange(6, dtype="f4").reshape(2, 3)
reading = []

def calls():
    return driver.fake_calls().decode().splitlines()

def violations():
    return driver.fake_violations().decode()

def reader(framework):
    "A function that reads its argument, and gives nothing that anybody would wait for."
    def f(x):
        reading.append(x + 1)
        reading.clear()
    return framework(f)
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A folder with the fake under the names of the driver and of its compiler."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("cc builds the fake driver, which stands for libcuda.so.1")
    folder = tmp_path_factory.mktemp("fake_cuda")
    kernel = bridges.ROOT / "examples" / "image-filters" / "src" / "sobel.cu"
    source = faked.FAKES / "fake_cuda" / "fake_cuda.c"
    command = ["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", f'-DSOBEL="{kernel}"', "-o"]
    libraries = ["-lm", "-lpthread"]
    # A driver is installed under this name; packages for development have `libcuda.so` besides.
    subprocess.run([*command, folder / "libcuda.so.1", source, *libraries], check=True)
    (folder / "libnvrtc.so").symlink_to(folder / "libcuda.so.1")
    return folder


@pytest.fixture
def on_driver(driver):
    """Runs a program on the fake driver."""

    def on_driver(code, *arguments, before=driver):
        end = "\nfound = violations()\nassert not found, found\n"
        env = {"LD_LIBRARY_PATH": f"{before}:{driver}"}
        faked.run(textwrap.dedent(code) + end, *arguments, before=DRIVER, env=env)

    return on_driver
