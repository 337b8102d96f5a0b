"""Shortcuts give the results of the public calls they replace, and each can be switched off.

`make test-without-shortcuts` runs the tests of conversions with all of them off.
"""

import bridges
import pytest

SHORTCUTS = ("exchange", "buffer", "import")


@pytest.mark.parametrize("off", SHORTCUTS)
def test_each_shortcut_can_be_switched_off_by_itself(off):
    bridges.need("torch", "jax")
    on = ",".join(name for name in SHORTCUTS if name != off)
    code = """
        import sys
        import bridges, numpy as np
        bridges.load()
        import arraybridge as ab, jax, torch

        image = np.arange(12, dtype="float32").reshape(3, 4)
        arrays = {name: bridges.make(name, image) for name in bridges.INSTALLED}
        # A shortcut, the public call that it replaces, and a conversion that then makes the call.
        replaced = [
            ("exchange", torch.Tensor, "__dlpack__", "torch", "numpy"),
            ("buffer", type(arrays["jax"]), "__dlpack__", "jax", "numpy"),
            ("import", jax.dlpack, "from_dlpack", "torch", "jax"),
        ]
        for name, owner, attribute, source, target in replaced:
            calls, public = [], getattr(owner, attribute)

            def counted(*args, public=public, calls=calls, **options):
                calls.append(True)
                return public(*args, **options)

            setattr(owner, attribute, counted)
            ab.convert(arrays[source], target)  # compares private with public calls
            calls.clear()
            ab.convert(arrays[source], target)
            assert bool(calls) == (name == sys.argv[1]), (name, calls)

        for source, x in arrays.items():
            for target in bridges.INSTALLED:
                result = ab.convert(x, target)
                assert bridges.difference(target, result, image) is None, (source, target)
    """
    bridges.survives(code, off, env={"ARRAYBRIDGE_FAST": on})


@pytest.mark.skipif("jax" not in bridges.INSTALLED, reason="JAX is not installed")
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bfloat16", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_a_jax_array_from_the_private_entry_point_is_like_a_public_one(dtype, shape):
    import arraybridge as ab
    import jax
    import jax.numpy as jnp
    import numpy as np

    # JAX only shares memory that is aligned to 64 bytes, so both get the same aligned array.
    array = np.zeros(shape, jnp.dtype(dtype))
    ours = ab.convert(array, "jax", copy=True)
    theirs = jax.dlpack.from_dlpack(jax.block_until_ready(jnp.array(array)))
    assert type(ours) is type(theirs)
    for name in ("aval", "weak_type", "committed", "sharding", "dtype", "shape"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.devices() == theirs.devices()
    assert np.array_equal(np.asarray(ours + ours), np.asarray(theirs + theirs))
