"""A function for 2-D images, called with each slice of a stack."""

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


@ab.numpy(dtype_conversion="preserve")
def smooth(image):
    return ndimage.gaussian_filter(image.astype("float64"), 1.5)


def ours(images):
    tensor = ab.convert(images, "torch")
    return smooth(tensor, slice_by_slice=True)


def reference(images):
    return np.rint(ndimage.gaussian_filter(images.astype("float64"), (0, 1.5, 1.5))).astype(
        "uint16"
    )


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
