"""Threads that call functions of three frameworks at the same time."""

from concurrent.futures import ThreadPoolExecutor

import arraybridge as ab
import numpy as np
from images import stack

NEEDS, TOLERANCE = ("torch", "jax", "tensorflow"), 0


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
