"""The tests of this folder need two CUDA devices, simulated or real."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def device_0_is_current():
    """Each test begins on device 0, on the default streams, and may leave what it likes."""
    import cupy
    import torch

    cupy.cuda.runtime.setDevice(0)
    yield
    torch.cuda.set_device(0)
    cupy.cuda.runtime.setDevice(0)
