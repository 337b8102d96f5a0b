"""Gradients that flow through functions of other frameworks."""

import gc
import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest

OWN = ("torch", "jax", "tensorflow")
PAIRS = [(caller, name) for caller in OWN for name in OWN if caller != name]
X = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])


def need(*names):
    for name in names:
        bridges.need(name)


def power(name, exponent=3):
    """A function of a framework: the sum of cubes, and the cubes, in a dictionary."""

    def cubes(x, y=None, *, scale=1.0):
        z = x**exponent * scale if y is None else x**exponent * scale * y
        return {"cubes": z, "pair": (z * 2, z + 1)}

    return getattr(ab, name)(differentiable=True)(cubes)


def weigh(result):
    """A scalar of which each result is a part."""
    first, second = result["pair"]
    return (result["cubes"] * 3 + first + second).sum()


def gradient_of(caller, loss, *arrays):
    """The gradients of a scalar function of a framework's arrays."""
    if caller == "torch":
        given = [array.clone().requires_grad_() for array in arrays]
        loss(*given).backward()
        return [each.grad for each in given]
    if caller == "jax":
        import jax

        return [*jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)]
    import tensorflow

    with tensorflow.GradientTape() as tape:
        tape.watch(arrays)
        result = loss(*arrays)
    return tape.gradient(result, arrays)


def summed(caller, f):
    """The sum of a function's result, by the caller's operations."""
    import importlib

    module = importlib.import_module(caller)
    total = {"torch": lambda x: x.sum(), "jax": lambda x: x.sum()}
    return lambda *x: total.get(caller, lambda x: module.reduce_sum(x))(f(*x))


def weighed(caller, f):
    def loss(*x):
        found = f(*x)
        one, two = found["pair"]
        return found["cubes"] * 3 + one + two

    return summed(caller, loss)


@pytest.mark.parametrize(("caller", "name"), PAIRS)
def test_a_gradient_flows_through_a_function_of_another_framework(caller, name):
    need(caller, name)
    f = power(name)
    x, y = (bridges.make(caller, array.astype("float32")) for array in (X, X + 2))
    of_x, of_y = gradient_of(caller, weighed(caller, lambda x, y: f(x, y, scale=2.0)), x, y)
    for gradient, expected in ((of_x, 6 * 6 * X**2 * (X + 2)), (of_y, 6 * 2 * X**3)):
        assert ab.detect_memory_type(gradient) == caller
        np.testing.assert_allclose(bridges.read(gradient), expected, rtol=1e-5)


@pytest.mark.parametrize(("caller", "name"), PAIRS)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64", "complex64"))
def test_every_dtype_with_a_gradient_keeps_it(caller, name, dtype):
    need(caller, name)

    @getattr(ab, name)(differentiable=True)
    def square(x):
        return x * x * x

    with bridges.x64(True):
        values = bridges.values(dtype, (3, 2))
        x = bridges.make(caller, values)
        if dtype.startswith("complex"):
            own = summed(caller, lambda x: real(caller, x * x * x))
            across = summed(caller, lambda x: real(caller, square(x)))
        else:
            own = summed(caller, lambda x: x * x * x)
            across = summed(caller, square)
        (expected,), (found,) = (gradient_of(caller, loss, x) for loss in (own, across))
        assert str(found.dtype) == str(x.dtype)
        rtol = {"float16": 1e-2, "bfloat16": 5e-2}.get(dtype, 1e-5)
        as_wide = [np.asarray(bridges.read(each)).astype("complex128") for each in (found, expected)]
        np.testing.assert_allclose(*as_wide, rtol=rtol)


def real(caller, x):
    if caller == "tensorflow":
        import tensorflow

        return tensorflow.math.real(x)
    return x.real
