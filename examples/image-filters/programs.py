"""One Rust function inside a training loop of JAX, an exported program of PyTorch and a SavedModel.

Each gives SciPy's median, bit for bit. The exit status is 1 if it does not. `--picture FILE` writes
a picture of the results.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import image_filters
import numpy as np
from scipy import ndimage
from skimage import data

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# For what is learned: the error of float32.
TOLERANCE = 1e-5
STEPS, PATCH, KERNEL = 200, 64, 5


def noisy_image():
    """A part of a photo, with a tenth of its pixels black or white."""
    image = data.camera()[40:200, 150:310].astype("float32") / 255
    chance = np.random.default_rng(0).random(image.shape)
    return np.where(chance < 0.05, 0, np.where(chance > 0.95, 1, image)).astype("float32")


def save_torch(image, path):
    import torch

    class Median(torch.nn.Module):
        def forward(self, image):
            return image_filters.despeckle(image)

    program = torch.export.export(Median(), (torch.from_numpy(image),), strict=True)
    torch.export.save(program, path)


def save_tensorflow(path):
    import tensorflow as tf

    model = tf.Module()
    spec = tf.TensorSpec([None, None], "float32")
    model.median = tf.function(lambda x: image_filters.despeckle(x), input_signature=[spec])
    tf.saved_model.save(model, str(path))


IN_TORCH = """
import image_filters, numpy, torch
median = torch.export.load("median.pt2").module()
numpy.save("result.npy", median(torch.from_numpy(numpy.load("image.npy"))))
"""
IN_TENSORFLOW = """
import image_filters, numpy, tensorflow
median = tensorflow.saved_model.load("median").median
numpy.save("result.npy", median(numpy.load("image.npy")))
"""


def in_another_process(code, folder):
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return np.load(folder / "result.npy")


def train(image, median):
    """The median in JAX, what a convolution has learned from it, and the loss of each step."""
    import jax

    def convolved(image, kernel):
        padded = jax.numpy.pad(image, KERNEL // 2, mode="symmetric")
        return jax.lax.conv(padded[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]

    def loss(kernel, patch):
        # The gradient is that of the kernel. A median has none, and the patch needs none.
        return ((convolved(patch, kernel) - median(patch)) ** 2).mean()

    @jax.jit
    def trained(image):
        def step(state, corner):
            kernel, speed = state
            patch = jax.lax.dynamic_slice(image, corner, (PATCH, PATCH))
            value, gradient = jax.value_and_grad(loss)(kernel, patch)
            speed = 0.9 * speed - 0.02 * gradient
            return (kernel + speed, speed), value

        kernel = jax.numpy.zeros((KERNEL, KERNEL)).at[KERNEL // 2, KERNEL // 2].set(1)
        corners = jax.random.randint(jax.random.key(0), (STEPS, 2), 0, len(image) - PATCH + 1)
        (kernel, _), losses = jax.lax.scan(step, (kernel, 0 * kernel), corners)
        return median(image), convolved(image, kernel), losses

    return trained(image)


def train_with_scipy(image):
    import jax

    return train(image, lambda patch: jax.pure_callback(scipys, patch, patch))


def scipys(image):
    return ndimage.median_filter(image, 3, mode="reflect")


def compare(name, result, expected, tolerance):
    difference = np.abs(np.subtract(result, expected)).max()
    print(f"{name}: {result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= tolerance and result.dtype == expected.dtype


def draw(parts, path):
    """Images side by side, each above its name."""
    from PIL import Image, ImageDraw, ImageFont

    size, gap, text = len(next(iter(parts.values()))), 8, 22
    width = len(parts) * (size + gap) - gap
    picture = Image.new("L", (width, size + text), "white")
    for i, (name, part) in enumerate(parts.items()):
        picture.paste(Image.fromarray(np.uint8(np.clip(part, 0, 1) * 255)), (i * (size + gap), 0))
        at = i * (size + gap) + size / 2, size + text / 2
        font = ImageFont.load_default(13)
        ImageDraw.Draw(picture).text(at, name, "black", font, anchor="mm")
    picture.save(path, quality=75, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", help="the file for a picture of the results")
    path = parser.parse_args().picture

    image = noisy_image()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "image.npy", image)
        save_torch(image, folder / "median.pt2")
        in_jax, learned, losses = train(image, image_filters.despeckle)
        save_tensorflow(folder / "median")
        in_torch = in_another_process(IN_TORCH, folder)
        in_tensorflow = in_another_process(IN_TENSORFLOW, folder)
    medians = {
        "JAX, jitted": in_jax,
        "PyTorch, exported": in_torch,
        "TensorFlow, saved": in_tensorflow,
    }
    _, learned_with_scipy, losses_with_scipy = train_with_scipy(image)
    compare("the learned convolution", learned, learned_with_scipy, TOLERANCE)
    compare("the losses", losses, losses_with_scipy, TOLERANCE)
    for name, median in medians.items():
        compare(name, median, scipys(image), 0)
    assert losses[-10:].mean() < 0.5 * losses[:10].mean()
    if path:
        draw({"noisy": image, **medians, "learned convolution": learned}, path)


if __name__ == "__main__":
    main()
