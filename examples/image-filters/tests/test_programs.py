"""One declaration is a native operator of JAX, PyTorch and TensorFlow."""

import subprocess
import sys

import arraybridge as ab
import bridges
import image_filters
import numpy as np
import pytest
import scipy.ndimage
from PIL import Image

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


def test_the_program_with_a_picture_gives_scipys_median_in_each_framework(tmp_path):
    for module, version in (("jax", None), ("torch", "2.13"), ("tensorflow", None)):
        pytest.importorskip(module, version)
        assert ab.explain_program(image_filters.despeckle, module).is_native
    program = bridges.ROOT / "examples" / "image-filters" / "programs.py"
    command = [sys.executable, program, "--picture", tmp_path / "new.jpg"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout.count("differs by 0 ") >= 3, done.stderr[-4000:]
    shown = bridges.ROOT / "docs" / "figures" / "despeckle.jpg"
    pictures = [np.asarray(Image.open(path), "float32") for path in (tmp_path / "new.jpg", shown)]
    assert pictures[0].shape == pictures[1].shape and np.abs(np.subtract(*pictures)).mean() < 2, (
        f"out of date: python {program} --picture {shown}"
    )
