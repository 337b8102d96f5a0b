"""The tests of this folder need two CUDA devices, simulated or real."""

import gc
import os
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parent


def why_not():
    """Why the tests cannot run here."""
    try:
        import arrays
    except Exception as error:
        if os.environ.get("SIMULATED_CUDA"):
            raise
        return f"{type(error).__name__}: {error}"
    return None if len(arrays.GPUS) > 1 else "one device"


WHY_NOT = why_not()
collect_ignore_glob = ["test_*.py"] if WHY_NOT else []


def pytest_report_header(config):
    return f"not run on two devices: {WHY_NOT}" if WHY_NOT else None


def pytest_collection_modifyitems(items):
    # The hook gets the tests of other folders too.
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)


def pytest_collection_finish():
    # Without the frameworks' own objects and the tests, a collection takes milliseconds.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def device_0_is_current():
    """Each test begins on device 0, on the default streams, and may leave what it likes."""
    import cupy
    import torch

    cupy.cuda.runtime.setDevice(0)
    yield
    torch.cuda.set_device(0)
    cupy.cuda.runtime.setDevice(0)
