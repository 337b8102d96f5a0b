"""Images with the distance of their pixels. The package does not know arraybridge."""

import numpy as np

__all__ = ["Grid"]


class Grid:
    """An image of two or three axes, and the distance of its pixels along each of them."""

    def __init__(self, values, spacing=None):
        self.values = np.array(values)
        if self.values.ndim not in (2, 3):
            raise ValueError("an image has 2 or 3 axes")
        self.spacing = tuple(spacing or (1.0,) * self.values.ndim)

    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: self.values.shape)

    def numpy(self):
        """The values, which share the memory."""
        return self.values

    def with_spacing(self, spacing):
        """The same image, with another distance of its pixels."""
        self.spacing = tuple(spacing)
        return self
