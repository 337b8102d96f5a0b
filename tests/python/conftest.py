"""Load the frameworks before the tests, in the one order that works on every machine.

`ARRAYBRIDGE_REQUIRE` lists frameworks that must be there. Tests of others are skipped.
"""

import gc
import importlib
import os
import signal

import bridges
import pytest

bridges.load()
# A shell has what it starts in the background ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    required = os.environ.get("ARRAYBRIDGE_REQUIRE", "").split()
    missing = [f"{name}: {why}" for name, why in bridges.MISSING.items() if name in required]
    lacking = bridges.LACKING.items()
    missing += [f"{name} with {dtypes}" for name, dtypes in lacking if dtypes and name in required]
    if missing:
        pytest.exit("required, but not there: " + "; ".join(missing), returncode=1)
    # pytest-xdist would begin with the files that have most tests.
    config.option.loadscopereorder = False


def pytest_report_header(config):
    found = [f"{name} {bridges.VERSIONS[name]}" for name in bridges.INSTALLED]
    missing = [f"{name} ({why})" for name, why in bridges.MISSING.items()]
    lines = ["frameworks: " + ", ".join(found)]
    if missing:
        lines.append("not tested: " + ", ".join(missing))
    return lines


# These take minutes, most with few tests.
SLOW = (
    "test_new", "test_conformance", "test_gallery", "test_docs", "test_doctor", "test_graphs",
    "test_crashes", "test_end_of_process", "test_layouts_among_devices", "test_native",
    "test_several_hosts", "test_gradients",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Begin with the slow files, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.path.stem not in SLOW)


def pytest_runtest_setup(item):
    """Skip a test with a parameter that names a missing framework."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    bridges.need(*(value for value in values if isinstance(value, str)))


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """Leave out what was made before: a collection takes milliseconds then, and not a second."""
    gc.collect()
    gc.freeze()


def framework(name, module):
    """A fixture that imports a framework, or skips the test where the framework is missing."""

    @pytest.fixture(scope="session")
    def imported():
        bridges.need(name)
        return importlib.import_module(module)

    return imported


torch = framework("torch", "torch")
jax = framework("jax", "jax")
jnp = framework("jax", "jax.numpy")
tf = framework("tensorflow", "tensorflow")
cle = framework("pyclesperanto", "pyclesperanto")


@pytest.fixture(scope="module")
def ext():
    """The module of tests/extension, which is built outside the workspace."""
    return bridges.tests_extension()


@pytest.fixture
def registered():
    """Forget the wrappers that a test registers."""
    from arraybridge import wrappers
    from arraybridge._arrays import adapters  # noqa: F401 - registers those of other libraries

    before = wrappers._registered
    yield
    wrappers._registered = before
    wrappers._found.clear()
    wrappers._core._forget_classes()
