"""Variables of Keras belong to the framework of its backend, each in a process of its own."""

import os
import subprocess
import sys

import bridges
import pytest

pytest.importorskip("keras")

PROGRAM = """
import sys
import keras, numpy as np, arraybridge as ab

backend = keras.backend.backend()
before = "tensorflow" in sys.modules
x = keras.Variable(np.array([1, 2], "float32"))
assert ab.detect_memory_type(x) == backend, ab.detect_memory_type(x)
assert np.asarray(ab.convert(x, "numpy")).tolist() == [1, 2]  # NumPy keeps its own variable.
value = getattr(ab, backend)(lambda x: x * 2, output_type="numpy")(x)
assert np.asarray(value).tolist() == [2, 4]
assert ("tensorflow" in sys.modules) == before
"""


@pytest.mark.parametrize("backend", ("torch", "jax", "tensorflow", "numpy"))
def test_a_variable_belongs_to_its_backend(backend):
    bridges.need(backend)
    env = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
