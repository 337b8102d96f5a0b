"""`selftest` and `check`, each as a whole, on devices: real or simulated ones."""

import json
import os

import pytest
from command_line import run
from gpus import need

pytestmark = pytest.mark.gpu

if os.environ.get("SIMULATED_CUDA"):
    from plugin import CHECKS_IN_JAX, CHECKS_WITH_LIBRARIES

    # What the simulation refuses. Work is done at once: that the checks pass on late work, and keep
    # the simulation's rules, is tested one by one (tests/simulated_cuda/test_tools.py).
    REFUSED = (*CHECKS_IN_JAX, *CHECKS_WITH_LIBRARIES)
    ENVIRONMENT = {"SIMULATED_CUDA_AT_ONCE": "1"}
else:
    REFUSED, ENVIRONMENT = (), {}


def failures(checks):
    """The reasons of the checks that failed, by their names."""
    failed = [check for check in checks if check["status"] == "failed"]
    return {check["name"]: check["reason"] for check in failed}


def is_refused(name):
    return name.startswith(REFUSED)


def test_the_selftest_passes():
    need("cupy", "torch", "jax")
    done = run("selftest", "--json", **ENVIRONMENT)
    report = json.loads(done.stdout)
    failed = failures(report["checks"])
    assert {name: why for name, why in failed.items() if not is_refused(name)} == {}
    assert report["gpus"] and {"cupy", "torch", "jax"} <= set(report["frameworks"])
    assert done.returncode == int(bool(failed)), done.stderr


@pytest.mark.parametrize("framework", ["cupy", "torch", "jax"])
def test_the_table_is_right(framework):
    need(framework)
    done = run("check", framework, "--against", framework, "--json", **ENVIRONMENT)
    found = json.loads(done.stdout)["frameworks"][framework]
    failed = failures(found["lines"])
    assert {name: why for name, why in failed.items() if not is_refused(name)} == {}
    assert found["against"] == [framework] and len(found["lines"]) > 50
    assert done.returncode == int(bool(failed)), done.stderr
