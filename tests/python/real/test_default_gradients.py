"""The default cuts no gradient: what would become integers stays floating point."""

import warnings

import arraybridge as ab
import numpy as np
import pytest

image = np.full((3, 4), 7, "uint8")


def test_a_result_of_torch_that_requires_a_gradient_stays_floating_point(torch):
    scaled = ab.torch(lambda image, weight: image * weight)
    weight = torch.tensor(2.5, requires_grad=True)
    result = scaled(torch.from_numpy(image), weight)
    assert result.dtype == torch.float32
    result.sum().backward()
    assert weight.grad == image.sum()
    with torch.no_grad(), pytest.warns(ab.FractionsLostWarning):
        assert scaled(torch.from_numpy(image), weight).dtype == torch.uint8
    chosen = scaled(torch.from_numpy(image), weight, dtype_conversion="preserve")
    assert chosen.dtype == torch.uint8


def test_torch_func_sees_the_gradient(torch):
    scaled = ab.torch(lambda image, weight: image * weight)
    given = torch.from_numpy(image)

    def loss(weight):
        return scaled(given, weight).sum()

    assert torch.func.grad(loss)(torch.tensor(2.5)) == image.sum()
    _, tangent = torch.func.jvp(loss, (torch.tensor(2.5),), (torch.tensor(1.0),))
    assert tangent == image.sum()


def test_torch_func_warns_where_it_cannot_be_known(torch):
    scaled = ab.torch(lambda image, weight: image * weight)
    given = torch.from_numpy(image)
    weights = torch.tensor([2.0, 3.0])
    with pytest.warns(ab.GradientDetachedWarning, match="native"):
        torch.func.vmap(lambda weight: scaled(given, weight))(weights)


def test_a_tape_of_tensorflow_sees_the_gradient(tf):
    scaled = ab.tensorflow(lambda image, weight: tf.cast(image, "float32") * weight)
    weight = tf.Variable(2.5)
    with tf.GradientTape() as tape:
        result = scaled(tf.constant(image), weight)
        loss = tf.reduce_sum(tf.cast(result, "float32"))
    assert result.dtype == tf.float32
    assert tape.gradient(loss, weight).numpy() == image.sum()
    with pytest.warns(ab.FractionsLostWarning):
        assert scaled(tf.constant(image), weight).dtype == tf.uint8


def test_a_graph_of_tensorflow_warns_when_it_is_traced(tf):
    scaled = ab.tensorflow(lambda image, weight: tf.cast(image, "float32") * weight)

    @tf.function
    def traced(weight):
        return scaled(tf.constant(image), weight)

    with pytest.warns(ab.GradientDetachedWarning, match="trace"):
        assert traced(tf.constant(2.0)).dtype == tf.uint8
    with warnings.catch_warnings(action="error", category=ab.GradientDetachedWarning):
        traced(tf.constant(3.0))


@pytest.mark.parametrize("transform", ["grad", "jacfwd", "jacrev", "value_and_grad"])
def test_a_gradient_of_jax_reaches_the_weights(jax, transform):
    scaled = ab.jax(lambda image, weight: image * weight)
    given = jax.numpy.asarray(image)

    def loss(weight):
        return scaled(given, weight).sum()

    with warnings.catch_warnings(action="error", category=ab.GradientDetachedWarning):
        found = getattr(jax, transform)(loss)(2.5)
    gradient = found[1] if isinstance(found, tuple) else found
    assert gradient == image.sum()
    assert jax.jit(jax.grad(loss))(2.5) == image.sum()


@pytest.mark.parametrize("transform", ["jit", "vmap", "checkpoint"])
def test_a_trace_of_jax_that_does_not_say_so_warns(jax, transform):
    scaled = ab.jax(lambda image, weight: image * weight)
    given = jax.numpy.asarray(image)
    traced = getattr(jax, transform)(lambda weight: scaled(given, weight))
    weights = jax.numpy.ones(2) * 2.5 if transform == "vmap" else 2.5
    with pytest.warns(ab.GradientDetachedWarning, match="native"):
        assert traced(weights).dtype == "uint8"
    chosen = ab.jax(lambda image, weight: image * weight, dtype_conversion="preserve")
    silent = getattr(jax, transform)(lambda weight: chosen(given, weight))
    with warnings.catch_warnings(action="error"):
        silent(weights)
