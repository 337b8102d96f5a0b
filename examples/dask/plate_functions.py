"""Functions for 2-D images in blocks of a plate, each written for another framework.

They return NumPy arrays, which Dask can send to any worker. Workers import this module.
"""

from __future__ import annotations

from typing import Any

import arraybridge as ab
import numpy as np


def fields(seed: int, count: int, size: int) -> np.ndarray:
    """Images with a background, noise and bright cells."""
    random = np.random.default_rng(seed)
    images = random.integers(100, 200, (count, size, size), dtype="uint16")
    for image in images:
        for y, x in random.integers(0, size - 16, (20, 2)):
            image[y : y + 16, x : x + 16] += 3000
    return images


@ab.memory_types("torch", "numpy", dtype_conversion="preserve")
def blur(images: Any) -> Any:
    """Mean of 5 x 5 pixels, as uint16."""
    import torch

    x = torch.nn.functional.pad(images.to(torch.float64)[:, None], (2, 2, 2, 2), mode="reflect")
    return torch.nn.functional.avg_pool2d(x, 5, stride=1)[:, 0]


@ab.memory_types("jax", "numpy", dtype_conversion="preserve")
def without_background(images: Any) -> Any:
    """Subtract the darkest pixel of each image."""
    return images - images.min(axis=(1, 2), keepdims=True)


@ab.memory_types("numpy", "numpy", dtype_conversion="native")
def bright(images: Any) -> Any:
    """The mask of the pixels above twice the mean of their image."""
    return images > 2 * images.mean(axis=(1, 2), keepdims=True)


@ab.memory_types("numpy", "numpy", dtype_conversion="native")
def area(masks: Any) -> Any:
    """The number of pixels in a mask."""
    return int(masks.sum())
