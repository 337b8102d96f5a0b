"""Out of memory on a device, and warnings about results there."""

import os
import subprocess
import sys
import textwrap

import arraybridge as ab
import arrays
import numpy as np
import pytest

START = """
import warnings, numpy as np, torch, cupy, arraybridge as ab
warnings.simplefilter("ignore")
M = 1 << 20
"""


def run(code, memory=256 << 20):
    """What a process with little device memory prints."""
    environment = dict(os.environ, SIMULATED_CUDA_MEMORY=str(memory))
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


needs_a_limit = pytest.mark.skipif(
    not os.environ.get("SIMULATED_CUDA"), reason="the memory of a real device has no limit to set"
)


@pytest.mark.xfail(strict=True, reason="the cast of a result is outside the ladder")
@needs_a_limit
@pytest.mark.parametrize(
    "function",
    [
        pytest.param("ab.cupy(lambda x: cupy.full(x.shape, 2, 'f4'))", id="the cast in CuPy"),
        pytest.param(
            "ab.torch(lambda x: torch.full(x.shape, 2.0, device='cuda'))", id="the cast in torch"
        ),
    ],
)
def test_what_is_allocated_after_the_body_is_recovered_too(function):
    assert run(f"print(type({function}(np.zeros((40, M), 'u1'))).__name__)")


@pytest.mark.xfail(strict=True, reason="the conversion of a result is outside the ladder")
@needs_a_limit
def test_the_conversion_of_a_result_is_recovered_too():
    code = """
    kept = torch.empty(200 * M, dtype=torch.uint8, device="cuda")
    del kept  # stays in the pool of torch
    made = ab.numpy(lambda x: np.zeros(200 * M, "u1"), output_type="cupy")(np.zeros(4, "u1"))
    print(type(made).__name__)
    """
    assert run(code) == "ndarray"


@pytest.mark.xfail(strict=True, reason="the host rung leaves a CuPy result on the current device")
@needs_a_limit
def test_after_the_host_rung_a_result_is_where_it_was_asked_for():
    code = """
    f = ab.cupy(lambda x: x + cupy.zeros(300 * M, "u1")[:4], gpu_id=1)
    print(f(np.zeros(4, "u1")).device.id)
    """
    assert run(code) == "1"


@pytest.mark.xfail(strict=True, reason="a conversion does not clear the caches of other frameworks")
@needs_a_limit
def test_a_conversion_frees_the_pool_of_another_framework():
    code = """
    x = cupy.empty(200 * M, "u1"); del x
    print(ab.convert(np.zeros(200 * M, "u1"), "torch", device="cuda:0").device)
    """
    assert run(code) == "cuda:0"


@pytest.mark.xfail(strict=True, reason="values that are clipped are counted on the host only")
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_values_that_are_clipped_on_a_device_are_warned_of(framework):
    change = getattr(ab, framework)(lambda x: x * 2.25 - 3)
    x = arrays.make(f"{framework}:0", (np.arange(12) * 20).astype("uint8"))
    with pytest.warns(ab.ClippedValuesWarning):
        change(x)
