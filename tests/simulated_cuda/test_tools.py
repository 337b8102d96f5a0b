"""The checks of `python -m arraybridge selftest`, and those that `check` has for CuPy.

Each is a test, so that it fails where the simulation's rules are broken too.
"""

import contextlib

import arrays  # noqa: F401  loads the frameworks in an order that works
import jax
import pytest
from arraybridge._tools import arrays as own
from arraybridge._tools.check import between, claims, tables
from arraybridge._tools.selftest import checks

PLACES = {name: own.places(name) for name in ("numpy", "cupy", "torch", "jax")}
TABLES = tables.tables()
SELFTEST = {f"{group}: {words}": check for group, words, check in checks.checks(PLACES)}
OF_CUPY = {name: check for name, _, check in claims.cases(TABLES["cupy"])}
for other in PLACES:
    OF_CUPY |= {name: check for name, _, check in between.cases(TABLES["cupy"], TABLES[other])}


@pytest.fixture(autouse=True)
def every_dtype_of_jax():
    """As the commands do."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("name", SELFTEST)
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_the_selftest_passes(name):
    assert SELFTEST[name]() > 0


@pytest.mark.parametrize("name", OF_CUPY)
@pytest.mark.filterwarnings("ignore")
def test_every_check_of_the_table_of_cupy_passes(name):
    with contextlib.suppress(claims.Note):
        OF_CUPY[name]()
