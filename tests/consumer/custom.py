"""A function as a user of OpenHCS writes it: floats from 0 to 1 of an image of integers."""

from __future__ import annotations

import numpy as np
from openhcs.core.memory import numpy as numpy_func


@numpy_func
def fraction(image: np.ndarray, maximum: float = 65535.0) -> np.ndarray:
    """Return an image as fractions of the largest value that a camera gives."""
    return image / np.float32(maximum)
