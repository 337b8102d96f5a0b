"""Functions for the images of a plate, each written for another framework, and what they need.

A plate may be a NumPy array, a Dask array, which stays lazy, or an array in a file, which is read
and written part by part. Workers import this module.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import arraybridge as ab
import numpy as np

HALO = 2


def fields(seed: int, count: int, size: int) -> np.ndarray:
    """Images with a background, noise and bright cells."""
    random = np.random.default_rng(seed)
    images = random.integers(100, 200, (count, size, size), dtype="uint16")
    for image in images:
        for y, x in random.integers(0, size - 16, (20, 2)):
            image[y : y + 16, x : x + 16] += 3000
    return images


@ab.torch(
    output_type="input", dtype_conversion="preserve", tiles=(4, 256, 256), halo=(0, HALO, HALO)
)
def blur(images: Any) -> Any:
    """Mean of 5 x 5 pixels, as uint16. A tile sees the pixels of its neighbours."""
    import torch

    x = torch.nn.functional.pad(images.to(torch.float64)[:, None], (2, 2, 2, 2), mode="reflect")
    return torch.nn.functional.avg_pool2d(x, 5, stride=1)[:, 0]


@ab.jax(output_type="input", dtype_conversion="preserve", slice_by_slice=True)
def without_background(image: Any) -> Any:
    """Subtract the darkest pixel of an image."""
    return image - image.min()


@ab.numpy(output_type="input", dtype_conversion="native", slice_by_slice=True)
def bright(image: Any) -> Any:
    """The mask of the pixels above twice the mean of an image."""
    return image > 2 * image.mean()


@ab.numpy(tiles=(4, None, None), join="sum", dtype_conversion="native")
def area(masks: Any) -> Any:
    """The number of pixels in masks."""
    return int(masks.sum())


class Memory:
    """The memory of this process beyond what it takes before the work begins.

    Frameworks are imported, and have their threads and compiled code, after a first call. There is
    no limit and no peak where the system does not say how much memory a process has, as Linux does.
    """

    def __init__(self, size: int, limit: int | None = None) -> None:
        """Begin to measure. With `limit`, further bytes are refused beyond so many.

        The images have `size` x `size` pixels.
        """
        for _ in range(2):
            area(bright(without_background(blur(fields(0, 4, size)))))
        self.before = 0
        if not Path("/proc/self/clear_refs").exists():
            return
        if limit is not None:
            import resource

            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + limit, most))
        self.before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again

    def peak(self) -> int:
        """The most bytes that were in memory at a time."""
        return max(_status("VmHWM") - self.before, 0) if self.before else 0


@functools.cache
def memory_of_process(size: int, limit: int) -> Memory:
    """The memory since the first call in this process."""
    return Memory(size, limit)


def _status(key: str) -> int:
    """A number of bytes that Linux knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
