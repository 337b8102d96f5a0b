"""Labels are measured with their image. Each argument keeps its own dtype."""

import arraybridge as ab
import numpy as np
from scipy import ndimage
from skimage import data

TOLERANCE = 1e-9


def inputs():
    image = data.coins()
    return image, ndimage.label(image > 130)[0]


@ab.torch(arrays=("image", "labels"), output_type="numpy", dtype_conversion="native")
def ours(image, labels):
    import torch

    assert (image.dtype, labels.dtype) == (torch.uint8, torch.int32)
    count = torch.bincount(labels.ravel())
    total = torch.bincount(labels.ravel(), image.ravel().double())
    return total / count


def reference(image, labels):
    return ndimage.mean(image, labels, np.arange(labels.max() + 1))


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
