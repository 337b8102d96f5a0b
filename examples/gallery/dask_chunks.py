"""Declared functions on a lazy Dask array: on overlapping chunks, and then on each chunk."""

import arraybridge as ab
import numpy as np
from scipy import ndimage
from skimage import data

TOLERANCE = 0


def inputs():
    return (data.camera(),)


@ab.torch(output_type="input", tiles=(128, 128), halo=4)
def brightest(image):
    import torch

    x = torch.nn.functional.pad(image.float()[None], (2, 2, 2, 2), mode="reflect")
    return torch.nn.functional.max_pool2d(x, 5, 1)[0]


@ab.jax(output_type="input", keep=True)
def halved(image):
    return image // 2


def ours(image):
    import dask.array

    later = halved(brightest(dask.array.from_array(image, chunks=128)))
    return later.compute(scheduler="threads", num_workers=4)


def reference(image):
    return ndimage.maximum_filter(image, 5, mode="mirror") // 2


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
