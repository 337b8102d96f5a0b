"""Models of Equinox and Flax that are trained with a loss in PyTorch."""

import arraybridge as ab
import numpy as np
import pytest

STEPS, RATE = 50, 0.05


def charbonnier(result, target):
    """A smooth absolute difference, with that of neighbours, in operations of both frameworks."""
    error = ((result - target) ** 2 + 1e-3) ** 0.5
    slope = (result[1:] - result[:-1]) - (target[1:] - target[:-1])
    return error.mean() + (slope**2).mean()


def equinox_losses(x, y, loss, is_compiled):
    equinox = pytest.importorskip("equinox")
    import jax

    def step(model, x, y):
        compare = lambda model: loss(jax.vmap(model)(x), y)  # noqa: E731
        value, gradients = equinox.filter_value_and_grad(compare)(model)
        updates = jax.tree_util.tree_map(lambda each: -RATE * each, gradients)
        return value, equinox.apply_updates(model, updates)

    step = equinox.filter_jit(step) if is_compiled else step
    model = equinox.nn.MLP(2, 1, 8, 2, activation=jax.numpy.tanh, key=jax.random.key(0))
    losses = []
    for _ in range(STEPS):
        value, model = step(model, x, y)
        losses.append(float(value))
    return losses


def flax_losses(x, y, loss, is_compiled):
    nnx = pytest.importorskip("flax.nnx")
    import jax

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(2, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)

        def __call__(self, x):
            return self.last(jax.numpy.tanh(self.first(x)))

    def step(model, x, y):
        value, gradients = nnx.value_and_grad(lambda model: loss(model(x), y))(model)
        weights = nnx.state(model, nnx.Param)
        nnx.update(model, jax.tree.map(lambda w, g: w - RATE * g, weights, gradients))
        return value

    step = nnx.jit(step) if is_compiled else step
    model = Model(nnx.Rngs(0))
    return [float(step(model, x, y)) for _ in range(STEPS)]


@pytest.mark.parametrize("is_compiled", (True, False))
@pytest.mark.parametrize("losses", (equinox_losses, flax_losses))
def test_a_model_of_jax_learns_from_a_loss_in_torch(torch, jax, losses, is_compiled):
    """The loss of each step is that of the same program in JAX alone."""
    from jax import numpy as jnp

    called = []

    @ab.torch(differentiable=True)
    def loss(result, target):
        called.append(isinstance(result, torch.Tensor))
        return charbonnier(result, target)

    x = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (32, 2)), "float32")
    y = jnp.sin(3 * x[:, :1]) * x[:, 1:]
    found = losses(x, y, loss, is_compiled)
    assert len(called) >= STEPS and all(called)
    assert found[-1] < found[0] * 0.95
    np.testing.assert_allclose(found, losses(x, y, charbonnier, is_compiled), atol=1e-5)
