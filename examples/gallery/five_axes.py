"""A stack with five axes (TCZYX): each plane is filtered, with the offset of its channel."""

import arraybridge as ab
import numpy as np
from images import stack
from scipy import ndimage

NEEDS, TOLERANCE = ("torch",), 0


def inputs():
    # Two times, two channels and two depths. The camera has an offset for each time and channel.
    return stack().reshape(2, 2, 2, 128, 128), np.array([[10, 20], [30, 40]], "int32")


@ab.torch(output_type="input", slice_by_slice=True, sliced="offset")
def brightest(plane, offset):
    import torch

    x = torch.nn.functional.max_pool2d(plane.float()[None], 5, 1, 2)[0]
    return (x - offset).clamp(min=0)


def ours(images, offsets):
    each = np.broadcast_to(offsets[:, :, None], images.shape[:3])
    return brightest(images, each)


def reference(images, offsets):
    largest = ndimage.maximum_filter(images, (1, 1, 1, 5, 5), mode="constant").astype("int32")
    return np.clip(largest - offsets[:, :, None, None, None], 0, None).astype("uint16")
