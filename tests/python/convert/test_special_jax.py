"""JAX's arrays that are not plain are converted correctly or refused by name."""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from special import CASTS, arrives, refused

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_traced_array_is_refused(jax):
    seen = []

    def inside(x):
        refused(x, "jax", "traced", "tracer")
        assert ab.convert(x, "jax") is x
        seen.append(True)
        return x

    jax.jit(inside)(jax.numpy.ones(3))
    jax.grad(lambda x: inside(x).sum())(jax.numpy.ones(3))
    jax.vmap(inside)(jax.numpy.ones((2, 3)))
    assert len(seen) == 3


def test_a_traced_array_is_cast_by_its_framework(jax):
    x = jax.numpy.asarray([-3.0, 0.5, 2.5, 300.0, np.nan], "float32")
    for dtype in CASTS:

        def inside(x, dtype=dtype):
            record = ab.explain(x, "jax", dtype=dtype)
            with ab.trace() as records:
                y = ab.convert(x, "jax", dtype=dtype)
            assert [r.how for r in records] == [record.how] == ["the framework's cast"]
            assert (record.route, record.dtype, record.shape) == ("copy", dtype, x.shape)
            return y

        y, expected = jax.jit(inside)(x), ab.convert(x, "jax", dtype=dtype)
        assert y.dtype == expected.dtype and y.tobytes() == expected.tobytes(), dtype
    slope = jax.grad(lambda x: ab.convert(x, "jax", dtype="float16").sum())(x)
    assert slope.tolist() == [1.0] * 5 and slope.dtype == x.dtype
    rows = jax.vmap(lambda x: ab.convert(x, "jax", dtype="uint8"))(x[:4])
    assert rows.tolist() == [0, 0, 2, 255]


def test_a_cast_of_a_traced_array_is_refused_where_nothing_can_make_it(jax):
    def inside(x):
        assert ab.convert(x, "jax", dtype=x.dtype) is x
        assert ab.explain(x, "jax", dtype=x.dtype).route == "keep"
        for options in (dict(copy=True), dict(device="cpu")):
            assert ab.convert(x, "jax", dtype="float16", **options).dtype == "float16"
            record = ab.explain(x, "jax", dtype="float16", **options)
            assert (record.route, record.dtype, record.device) == ("copy", "float16", "host")
        for options, error in (
            (dict(dtype="float16", copy=False), ab.CopyRequiredError),
            (dict(copy=True), ab.UnsupportedArrayError),
        ):
            for call in (ab.convert, ab.explain):
                with pytest.raises(error):
                    call(x, "jax", **options)
        with pytest.raises(ab.UnsupportedArrayError, match="traced"):
            ab.convert(x, "numpy", dtype="float16")
        return x

    jax.jit(inside)(jax.numpy.ones(3))
    with pytest.raises(ab.UnsupportedArrayError, match="key"):
        ab.convert(jax.random.key(0), "jax", dtype="float32")


def test_a_traced_array_of_a_dtype_that_is_not_known_is_not_cast(jax):
    x = jax.numpy.asarray([-8, -1, 3]).astype("int4")
    for function in (
        lambda x: ab.convert(x, "jax", dtype="uint8"),
        ab.jax(input_dtype="uint8", dtype_conversion="native")(lambda x: x),
    ):
        for call in (function, jax.jit(function), jax.vmap(function)):
            with pytest.raises(ab.UnsupportedDtypeError, match="int4"):
                call(x)


def test_a_donated_array_is_refused(jax):
    x = jax.numpy.ones(1024)
    jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    if not x.is_deleted():
        pytest.skip("this backend did not take the donation")
    refused(x, "jax", "deleted")


def test_a_weakly_typed_array_arrives(jax):
    with bridges.x64(False):
        x = jax.numpy.asarray(3) * jax.numpy.ones(3, "int32")
        arrives(x, "jax", np.full(3, 3, "int32"))


def test_a_lazy_result_arrives_finished(jax):
    x = jax.numpy.ones((300, 300))
    for _ in range(5):
        x = x @ x / 300
    y = ab.convert(x, "numpy")
    assert np.allclose(y, 1)


def test_a_copy_of_a_deleted_array_is_refused():
    bridges.need("jax")
    # The framework's copy would end the process.
    bridges.survives(
        """
        import bridges, jax.numpy as jnp, arraybridge as ab

        x = jnp.arange(3.0) + 1
        x.delete()
        same = ab.jax(lambda a: a, copy=True)
        for call in (lambda: ab.convert(x, "jax", copy=True), lambda: same(x)):
            bridges.raises(ab.UnsupportedArrayError, call, "deleted")
        """
    )


def test_the_dtype_policy_holds_for_a_sharded_result():
    bridges.need("jax")
    bridges.survives(
        """
        import jax, numpy as np, arraybridge as ab

        mesh = jax.sharding.Mesh(jax.devices(), ("x",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        x = np.arange(8, dtype="uint8").reshape(4, 2)
        half = ab.jax(lambda a: a * 0.75)
        sharded = half(jax.device_put(x, sharding))
        assert sharded.dtype == "uint8" and sharded.sharding == sharding, sharded.sharding
        assert (np.asarray(sharded) == np.rint(x * 0.75)).all()
        assert half(jax.device_put(x, sharding), dtype_conversion="int16").dtype == "int16"
        """,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )


def test_a_sharded_array_is_gathered_by_a_copy_alone():
    bridges.need("jax")
    bridges.survives(
        """
        import bridges, jax, numpy as np, arraybridge as ab

        bridges.load("torch")
        mesh = jax.sharding.Mesh(jax.devices(), ("x",))
        x = np.arange(8.0, dtype="f4").reshape(4, 2)
        for axes in (("x",), (None, "x"), ()):  # in rows, in columns, and the whole on each
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
            sharded = jax.device_put(x, sharding)
            for target in ("numpy", "torch"):
                for copy in (None, False):
                    convert = lambda: ab.convert(sharded, target, copy=copy)
                    bridges.raises(ab.UnsupportedArrayError, convert, "copy=True gathers it")
                result = ab.convert(sharded, target, copy=True)
                assert (np.asarray(result) == x).all() and ab.explain(sharded, target, copy=True)
                result[:] = 0  # nobody else has it
                assert (np.asarray(sharded) == x).all()
            again = ab.convert(sharded, "jax", copy=True)
            assert (np.asarray(again) == x).all()
            cast = ab.convert(sharded, "jax", dtype="float16", copy=True)
            assert cast.dtype == "float16" and (np.asarray(cast) == x.astype("float16")).all()
        """,
        env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
