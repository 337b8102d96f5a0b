"""Functions whose memory runs out, on allocations that really fail.

Each framework is asked for more than any machine has, which it refuses at once. pyclesperanto is
not: PoCL allocates late and ends the process.
"""

import bridges
import numpy as np

HUGE = 1 << 46


def exhaust(name):
    """Ask a framework for more memory than there is."""
    if name == "numpy":
        return np.ones((HUGE,), "float64")
    if name == "torch":
        import torch

        return torch.ones(HUGE)
    if name == "jax":
        import jax

        return jax.block_until_ready(jax.numpy.ones((HUGE,), "float32"))
    import tensorflow as tf

    return tf.ones((HUGE,), "float32")


def image(rows=8):
    return bridges.image(rows, 3)


def notes(caught):
    return " | ".join(getattr(caught.value, "__notes__", []))


class Failing:
    """A function that runs out of memory a number of times."""

    def __init__(self, name, times, largest=None):
        self.name, self.times, self.largest, self.shapes = name, times, largest, []
        self.error = None

    def __call__(self, image):
        self.shapes.append(tuple(image.shape))
        if self.error is not None:
            raise self.error
        if self.largest is not None and image.shape[0] > self.largest:
            exhaust(self.name)
        if len(self.shapes) <= self.times:
            exhaust(self.name)
        return image * 2


def lengths_of(failing):
    lengths = [shape[0] for shape in failing.shapes]
    failing.shapes.clear()
    return lengths
