"""A declared function on the overlapping chunks of a Dask array, in threads."""

import arraybridge as ab
from images import camera
from scipy import ndimage

NEEDS, TOLERANCE = ("torch", "dask"), 0


def inputs():
    return (camera(),)


@ab.torch(output_type="input")
def brightest(image):
    import torch

    x = torch.nn.functional.pad(image.float()[None], (2, 2, 2, 2), mode="reflect")
    return torch.nn.functional.max_pool2d(x, 5, 1)[0]


def ours(image):
    import dask.array

    chunks = dask.array.from_array(image, chunks=128)
    result = chunks.map_overlap(brightest, depth=4, boundary="reflect", dtype=image.dtype)
    doubled = result.map_blocks(ab.jax(lambda x: x // 2, output_type="input"), dtype=image.dtype)
    return doubled.compute(scheduler="threads", num_workers=4)


def reference(image):
    return ndimage.maximum_filter(image, 5, mode="mirror") // 2
