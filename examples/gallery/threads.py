"""Threads that call functions of three frameworks at the same time."""

from concurrent.futures import ThreadPoolExecutor

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


STEPS = [
    ab.torch(lambda image: image.int() + 1),
    ab.jax(lambda image: image[::-1]),
    ab.tensorflow(lambda image: image * 2),
]


def through_all(image):
    for step in STEPS:
        image = step(image)
    return ab.convert(image, "numpy")


def ours(images):
    with ThreadPoolExecutor(4) as pool:
        return np.stack(list(pool.map(through_all, list(images) * 5)))


def reference(images):
    return np.concatenate([(images[:, ::-1].astype("int32") + 1) * 2] * 5)


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
