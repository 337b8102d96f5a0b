"""A convolution in TensorFlow, in a compiled function."""

import arraybridge as ab
from images import camera
from scipy import ndimage

NEEDS, TOLERANCE = ("tensorflow",), 0


def inputs():
    return (camera(),)


@ab.tensorflow(dtype_conversion="float32", output_type="input")
def ours(image):
    import tensorflow as tf

    kernel = tf.constant([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])[:, :, None, None]
    x = tf.pad(tf.cast(image, tf.float32)[None, :, :, None], [[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.function(tf.nn.conv2d)(x, kernel, 1, "VALID")[0, :, :, 0]


def reference(image):
    return ndimage.sobel(image.astype("float32"), 1, mode="constant")
