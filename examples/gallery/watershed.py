"""A distance in PyTorch and a watershed of scikit-image, which keep labels as they are."""

import arraybridge as ab
from images import coins
from scipy import ndimage
from skimage import feature, segmentation

NEEDS, TOLERANCE = ("torch",), 0


def inputs():
    return (coins(),)


@ab.torch
def mask(image):
    return image > 110


@ab.numpy(dtype_conversion="native")
def split(mask):
    distance = ndimage.distance_transform_edt(mask)
    peaks = feature.peak_local_max(distance, min_distance=12, labels=ndimage.label(mask)[0])
    seeds = mask * 0
    seeds = seeds.astype("int32")
    seeds[tuple(peaks.T)] = range(1, len(peaks) + 1)
    return segmentation.watershed(-distance, seeds, mask=mask)


def ours(image):
    return split(mask(image))


def reference(image):
    return split.__wrapped__(image > 110)
