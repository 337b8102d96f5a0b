"""A stack with five axes (TCZYX): each plane is filtered, with the offset of its channel."""

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


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
