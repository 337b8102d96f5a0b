"""A stack in shards of a zarr array: read, filtered and written one shard at a time."""

import tempfile

import arraybridge as ab
import numpy as np
from scipy import ndimage
from skimage import data

TOLERANCE = 0


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])


def inputs():
    return (stack(),)


@ab.numpy(tiles="chunks", halo=(0, 4, 4), workers=2)
def median(images):
    return ndimage.median_filter(images, (1, 5, 5))


def ours(images):
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        make = {"shape": images.shape, "dtype": images.dtype, "chunks": (1, 64, 64)}
        source = zarr.create_array(f"{folder}/source", **make)
        target = zarr.create_array(f"{folder}/target", shards=(1, 256, 256), **make)
        source[:] = images
        return np.asarray(median(source, out=target))


def reference(images):
    return ndimage.median_filter(images, (1, 5, 5))


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
