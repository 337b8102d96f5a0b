"""A low pass in JAX: a compiled function, declared, that is called with torch's tensor."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1


def inputs():
    return (data.camera(),)


@ab.jax(output_type="numpy", dtype_conversion="preserve")
def low_pass(image):
    import jax
    import jax.numpy as jnp

    @jax.jit
    def filtered(image):
        y, x = (jnp.fft.fftfreq(size) for size in image.shape)
        keep = jnp.hypot(*jnp.meshgrid(y, x, indexing="ij")) < 0.1
        return jnp.fft.ifft2(jnp.fft.fft2(image) * keep).real

    return filtered(image)


def ours(image):
    return low_pass(ab.convert(image, "torch"))


def reference(image):
    y, x = (np.fft.fftfreq(size) for size in image.shape)
    keep = np.hypot(*np.meshgrid(y, x, indexing="ij")) < 0.1
    return np.clip(np.rint(np.fft.ifft2(np.fft.fft2(image) * keep).real), 0, 255).astype("uint8")


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
