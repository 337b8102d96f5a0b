"""The tests of this folder need CUDA devices, simulated or real.

Where there is one, those that need a second one are skipped: a parameter names it, or the test has
the marker `two_devices`.
"""

import gc
import os
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parent


def why_not():
    """Why the tests cannot run here."""
    try:
        import arrays  # noqa: F401
    except Exception as error:
        if os.environ.get("SIMULATED_CUDA"):
            raise
        return f"{type(error).__name__}: {error}"
    return None


def two_devices():
    import arrays

    return len(arrays.GPUS) > 1


WHY_NOT = why_not()
collect_ignore_glob = ["test_*.py"] if WHY_NOT else []


def pytest_report_header(config):
    return f"not run on CUDA devices: {WHY_NOT}" if WHY_NOT else None


def needs_a_second(item):
    """Whether a test needs a second device."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return (
        item.get_closest_marker("two_devices")
        or any(re.search(r"\b(torch|cupy|jax|cuda):1\b", str(each)) for each in parameters.values())
        or any(parameters.get(name) == 1 for name in ("index", "gpu_id"))
    )


def pytest_collection_modifyitems(items):
    # The hook gets the tests of other folders too.
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if needs_a_second(item) and not two_devices():
                item.add_marker(pytest.mark.skip(reason="needs two devices"))


def pytest_collection_finish():
    # Without the frameworks' own objects and the tests, a collection takes milliseconds.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def device_0_and_its_default_streams_are_current():
    """Each test begins on device 0, on the default streams, and may leave what it likes.

    CuPy keeps a current stream for each device, and a `with` block that ends on another device than
    it began on leaves its stream there.
    """
    import arrays
    import cupy
    import torch

    cupy.cuda.runtime.setDevice(0)
    yield
    for device in reversed(range(len(arrays.GPUS))):
        torch.cuda.set_device(device)
        torch.cuda.set_stream(torch.cuda.default_stream(device))
        with cupy.cuda.Device(device):
            cupy.cuda.Stream.null.use()
    cupy.cuda.runtime.setDevice(0)
