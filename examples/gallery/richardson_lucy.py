"""Richardson-Lucy deconvolution in JAX. The result has the dtype of the image."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1
ROUNDS = 10


def inputs():
    line = np.exp(-(np.arange(-4, 5) ** 2) / 4)
    kernel = np.outer(line, line) / line.sum() ** 2
    return data.camera(), kernel.astype("float32")


@ab.jax(arrays=("image", "kernel"), output_type="input", dtype_conversion="preserve")
def ours(image, kernel):
    import jax.numpy as jnp
    from jax.scipy.signal import fftconvolve

    image = image.astype(jnp.float32)
    guess = jnp.full_like(image, 128)
    for _ in range(ROUNDS):
        blurred = fftconvolve(guess, kernel, mode="same")
        guess *= fftconvolve(image / jnp.maximum(blurred, 1e-3), kernel[::-1, ::-1], mode="same")
    return guess


def reference(image, kernel):
    from scipy.signal import fftconvolve

    image = image.astype("float64")
    guess = np.full_like(image, 128)
    for _ in range(ROUNDS):
        blurred = fftconvolve(guess, kernel, mode="same")
        guess *= fftconvolve(image / np.maximum(blurred, 1e-3), kernel[::-1, ::-1], mode="same")
    return np.clip(np.rint(guess), 0, 255).astype("uint8")


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
