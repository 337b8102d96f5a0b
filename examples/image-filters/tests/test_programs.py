"""One declaration is a native operator of JAX, PyTorch and TensorFlow."""

import image_filters
import numpy as np
import pytest
import scipy.ndimage

IMAGE = np.random.default_rng(0).random((37, 53), dtype="float32")
SMOOTH = scipy.ndimage.gaussian_filter(IMAGE, 2.0)


def close(result):
    np.testing.assert_allclose(np.asarray(result), SMOOTH, rtol=1e-5)


def test_a_loss_in_a_compiled_loop_of_jax_smooths_its_target():
    jax = pytest.importorskip("jax")

    def loss(image, target):
        return ((image - image_filters.gaussian(target, sigma=2.0)) ** 2).sum()

    @jax.jit
    def train(image, target):
        step = lambda image, _: (image - 0.25 * jax.grad(loss)(image, target), None)  # noqa: E731
        return jax.lax.scan(step, image, None, 40)[0]

    assert "ffi_call" in str(jax.make_jaxpr(train)(IMAGE, IMAGE))
    close(train(np.zeros_like(IMAGE), IMAGE))


def test_a_program_that_torch_exports_has_the_operator(tmp_path):
    torch = pytest.importorskip("torch", "2.13")

    class Model(torch.nn.Module):
        def forward(self, image):
            return image_filters.gaussian(image, sigma=2.0)

    program = torch.export.export(Model(), (torch.from_numpy(IMAGE),), strict=True)
    assert "image_filters.gaussian" in str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    close(torch.export.load(tmp_path / "model.pt2").module()(torch.from_numpy(IMAGE)))


def test_a_saved_model_of_tensorflow_has_the_operator(tmp_path):
    tf = pytest.importorskip("tensorflow")
    model = tf.Module()
    spec = tf.TensorSpec([None, None], "float32")
    model.smooth = tf.function(
        lambda image: image_filters.gaussian(image, sigma=2.0), input_signature=[spec]
    )
    tf.saved_model.save(model, str(tmp_path / "model"))
    close(tf.saved_model.load(str(tmp_path / "model")).smooth(IMAGE))
