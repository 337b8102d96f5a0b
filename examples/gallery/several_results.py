"""A function with several results: an image, a mask and a number, for a whole stack."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])


def inputs():
    return (stack(),)


@ab.torch(output_type="input")
def analysed(image):
    middle = image.float().median()
    return image.int() - image.int().amin(), image > middle, float(middle)


def ours(images):
    flat, masks, middles = analysed(images, slice_by_slice=True)
    return flat, masks, np.array(middles)


def reference(images):
    flat = (images - images.min((1, 2), keepdims=True)).astype("int32")
    rows = np.sort(images.reshape(8, -1).astype("float32"))
    middles = rows[:, (rows.shape[1] - 1) // 2]
    return flat, images > middles[:, None, None], middles.astype("float64")


if __name__ == "__main__":
    arrays = inputs()
    results = ours(*arrays)
    for result, expected in zip(map(np.asarray, results), reference(*arrays), strict=True):
        difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
        print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
        assert difference <= TOLERANCE and result.dtype.kind == np.asarray(expected).dtype.kind
