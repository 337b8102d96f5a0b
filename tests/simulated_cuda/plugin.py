"""A pytest plugin: each test runs on the simulated CUDA, and fails if it does what the simulation's
rules forbid.
"""

import os

# XLA complains that nobody tells it how fast the bus is.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import loader
import pytest

# These compute with arrays of JAX, or export an empty one, which JAX does by a compiled program.
# The simulation refuses both: XLA compiles to machine code.
COMPUTES_IN_JAX = {
    "test_empty_and_scalar_arrays_arrive",
    "test_a_result_that_is_still_computed_arrives_finished",
    "test_a_side_stream_is_waited_for",
    "test_values_that_are_still_computed_arrive_finished",
}
# So do these checks of the selftest.
CHECKS_IN_JAX = (
    "declared functions: jax",
    "out of memory: jax on accelerator",
    "work in progress: jax on accelerator",
)
# These checks of CuPy's table import a library of NVIDIA for which there is a stand-in.
CHECKS_WITH_LIBRARIES = ("oom cupy_backends.cuda.libs", "retry after cupy_backends.cuda.libs")


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        check = str(parameters.get("name"))
        computes = item.originalname in COMPUTES_IN_JAX and "jax" in parameters.values()
        if computes or check.startswith(CHECKS_IN_JAX):
            item.add_marker(pytest.mark.skip("the simulated CUDA runs no compiled program of JAX"))
        if check.startswith(CHECKS_WITH_LIBRARIES):
            item.add_marker(pytest.mark.skip("the simulated CUDA has no cuBLAS and no cuSOLVER"))


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
