"""A function of values from 0 to 1 for an image of integers, and back."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 1


def inputs():
    return (data.camera(),)


@ab.tensorflow(scaling="unit", output_type="input")
def ours(image):
    import tensorflow as tf

    return (tf.cast(image, tf.float32) / 255) ** 0.5


def reference(image):
    return np.rint(np.sqrt(image / 255) * 255).astype("uint8")


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
