"""Short cuts: the same results with and without them, and a JAX array that is like any other."""

import os
import subprocess
import sys
from pathlib import Path

import bridges
import pytest

HERE = Path(__file__).parent

# The sharing and special tests in full; of the matrix what takes seconds.
WITHOUT = [
    "test_sharing.py",
    "test_special.py",
    "test_matrix.py",
    "-k",
    "not every_dtype_in_every_layout",
]


def test_results_are_the_same_with_every_short_cut_off():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *WITHOUT],
        cwd=HERE,
        env={**os.environ, "ARRAYBRIDGE_FAST": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("value", ["exchange", "buffer", "import"])
def test_each_short_cut_can_be_switched_off_by_itself(value):
    code = """
        import bridges, numpy as np
        import arraybridge as ab
        bridges.load()
        image = np.arange(12, dtype="float32").reshape(3, 4)
        for source in bridges.CPU_FRAMEWORKS:
            for target in bridges.CPU_FRAMEWORKS:
                if {source, target} <= set(bridges.INSTALLED):
                    result = ab.convert(bridges.make(source, image), target)
                    assert bridges.difference(target, result, image) is None, (source, target)
        print("same")
    """
    assert bridges.survives(code, env={"ARRAYBRIDGE_FAST": value}).strip().endswith("same")


@pytest.mark.skipif("jax" not in bridges.INSTALLED, reason="JAX is not installed")
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bfloat16", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_a_jax_array_of_the_private_way_in_is_like_one_of_the_public(dtype, shape):
    import arraybridge as ab
    import jax
    import jax.numpy as jnp
    import numpy as np

    # JAX shares memory of 64 bytes' alignment alone, so both get the same aligned array.
    array = np.zeros(shape, jnp.dtype(dtype))
    ours = ab.convert(array, "jax", copy=True)
    theirs = jax.dlpack.from_dlpack(jax.block_until_ready(jnp.array(array)))
    assert type(ours) is type(theirs)
    for name in ("aval", "weak_type", "committed", "sharding", "dtype", "shape"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.devices() == theirs.devices()
    assert np.array_equal(np.asarray(ours + ours), np.asarray(theirs + theirs))
