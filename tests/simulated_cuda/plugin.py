"""A pytest plugin: each test runs on the simulated CUDA, and fails if it does what the simulation's
rules forbid.
"""

import os

# XLA complains that nobody tells it how fast the bus is.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import loader
import pytest


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "violates: the test does what the rules of the simulation forbid, on purpose"
    )


def pytest_report_header(config):
    return "simulated CUDA: two devices whose memory is host memory. Not evidence about a device."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    loader.finish()
    loader.violations()
    result = yield
    loader.finish()
    found = loader.violations()
    if found and not item.get_closest_marker("violates"):
        more = f"\n.. and {len(found) - 5} more" if len(found) > 5 else ""
        pytest.fail("simulated CUDA: " + "\n".join(found[:5]) + more, pytrace=False)
    return result
