"""The defaults of the process: threads and workers see them, and blocks go before them."""

import ast
import concurrent.futures
import threading

import arraybridge as ab
import bridges
import numpy as np
import pytest

DEFAULTS = {"dtype_conversion": "default", "scaling": "clamp", "narrow": "warn", "copy": "auto"}
CHOSEN = {"dtype_conversion": "native", "scaling": "unit", "narrow": "error", "copy": False}
image = np.array([[100, 200]], "uint8")
scaled = ab.numpy(lambda image: image * 1.0)


@pytest.fixture(autouse=True)
def restored():
    before = ab.configure()
    yield
    ab.configure(**before)


def dtype():
    return str(scaled(image).dtype)


def test_what_is_set_is_returned_and_restored():
    assert ab.configure() == DEFAULTS
    before = ab.configure(**CHOSEN)
    assert before == DEFAULTS
    assert ab.configure() == CHOSEN
    ab.configure(**before)
    assert ab.configure() == DEFAULTS


def test_threads_and_the_workers_of_pools_see_it():
    ab.configure(dtype_conversion="native")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(dtype()))
    thread.start()
    thread.join()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        seen += pool.map(lambda _: dtype(), range(4))
    assert set(seen) == {"float64"}


def test_blocks_declarations_and_calls_go_before_it():
    ab.configure(dtype_conversion="native")
    with ab.dtype_policy(dtype_conversion="preserve"):
        assert dtype() == "uint8"
    with ab.dtype_policy(dtype_conversion="default"):
        assert dtype() == "uint8"
    with ab.dtype_policy(scaling="unit"):
        assert dtype() == "float64"
    assert ab.numpy(lambda x: x * 1.0, dtype_conversion="preserve")(image).dtype == "uint8"
    assert scaled(image, dtype_conversion="float32").dtype == "float32"
    assert dtype() == "float64"


def test_copies_are_made_or_forbidden():
    floats = np.ones(4)
    assert ab.convert(floats, "numpy") is floats
    ab.configure(copy=True)
    copied = ab.convert(floats, "numpy")
    assert copied is not floats and not np.shares_memory(copied, floats)
    got = []
    ab.numpy(got.append)(floats)
    assert not np.shares_memory(got[0], floats)
    assert ab.convert(floats, "numpy", copy=False) is floats
    ab.configure(copy=False)
    assert ab.convert(floats, "numpy") is floats
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(floats, "numpy", dtype="float32")
    assert ab.convert(floats, "numpy", copy=True) is not floats
    ab.configure(copy="auto")
    assert ab.convert(floats, "numpy", dtype="float32").dtype == "float32"


def test_narrowing_is_refused(jax):
    ab.configure(narrow="error")
    with bridges.x64(False), pytest.raises(ab.UnsupportedDtypeError):
        ab.convert_memory(np.arange(3), "numpy", "jax")


@pytest.mark.parametrize(
    "wrong",
    [{"dtype_conversion": "uint17"}, {"scaling": "both"}, {"narrow": "never"}, {"copy": "maybe"}],
)
def test_a_name_that_is_unknown_sets_nothing(wrong):
    with pytest.raises(ValueError, match="unknown"):
        ab.configure(**{"scaling": "stretch", **wrong})
    assert ab.configure() == DEFAULTS


def test_the_environment_is_read_on_import():
    values = {"DTYPE_CONVERSION": "native", "SCALING": "unit", "NARROW": "error", "COPY": "false"}
    env = {f"ARRAYBRIDGE_{name}": value for name, value in values.items()}
    found = bridges.survives("import arraybridge as ab; print(ab.configure())", env=env)
    assert ast.literal_eval(found) == CHOSEN


def test_a_variable_with_an_unknown_name_is_an_error_that_names_it():
    done = bridges.python("import arraybridge", env={"ARRAYBRIDGE_SCALING": "both"})
    assert done.returncode == 1
    assert "ARRAYBRIDGE_SCALING" in done.stderr.splitlines()[-1]
