"""Images that come with scikit-image."""

import numpy as np
from skimage import data


def camera():
    """A photo, uint8, 512 x 512."""
    return data.camera()


def coins():
    """Bright coins on a dark background, uint8, 303 x 384."""
    return data.coins()


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])
