"""A function for 2-D images, called with each slice of a stack."""

import arraybridge as ab
import numpy as np
from images import stack
from scipy import ndimage

NEEDS, TOLERANCE = ("torch",), 0


def inputs():
    return (stack(),)


@ab.numpy
def smooth(image):
    return ndimage.gaussian_filter(image.astype("float64"), 1.5)


def ours(images):
    tensor = ab.convert(images, "torch")
    return smooth(tensor, slice_by_slice=True)


def reference(images):
    return np.rint(ndimage.gaussian_filter(images.astype("float64"), (0, 1.5, 1.5))).astype(
        "uint16"
    )
