"""A convolution in TensorFlow, in a compiled function."""

import arraybridge as ab
import numpy as np
from scipy import ndimage
from skimage import data

TOLERANCE = 0


def inputs():
    return (data.camera(),)


@ab.tensorflow(dtype_conversion="float32", output_type="input")
def ours(image):
    import tensorflow as tf

    kernel = tf.constant([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])[:, :, None, None]
    x = tf.pad(tf.cast(image, tf.float32)[None, :, :, None], [[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.function(tf.nn.conv2d)(x, kernel, 1, "VALID")[0, :, :, 0]


def reference(image):
    return ndimage.sobel(image.astype("float32"), 1, mode="constant")


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
