"""Pictures of what a pipeline took and what it gave, side by side."""

from pathlib import Path

import numpy as np
from PIL import Image

# Pipelines whose results say something to the eye, and the part of the image that shows it.
EVERYTHING = (slice(None), slice(None))
FACE = (slice(40, 200), slice(150, 310))
SHOWN = {
    "dask_chunks": FACE,
    "fft_filter": FACE,
    "five_axes": EVERYTHING,
    "jax_loss": EVERYTHING,
    "normalised_input": EVERYTHING,
    "opencl_segmentation": EVERYTHING,
    "richardson_lucy": FACE,
    "slice_by_slice": EVERYTHING,
    "state_dict": FACE,
    "tensorflow_edges": EVERYTHING,
    "watershed": EVERYTHING,
    "xarray_time_series": EVERYTHING,
    "zarr_chunks": EVERYTHING,
}
HEIGHT, GAP = 256, 8


def flat(array):
    """A 2-D image. Of a stack, the first four images."""
    array = np.asarray(array)
    array = array if array.ndim == 2 else array.reshape(-1, *array.shape[-2:])
    return array if array.ndim == 2 else np.block([[*array[:2]], [*array[2:4]]])


def grey(array):
    """From black to white, without the darkest and the brightest of a thousand pixels."""
    low, high = np.percentile(array, (0.1, 99.9))
    return np.uint8(np.clip((array - low) / max(high - low, 1e-9), 0, 1) * 255)


def coloured(labels):
    """A colour for each label, and black for none."""
    colours = np.random.default_rng(0).integers(64, 256, (labels.max() + 1, 3), dtype="uint8")
    colours[0] = 0
    return colours[labels]


def scaled(array):
    """An image of the height of the pictures."""
    labels = array.dtype == np.int32
    image = Image.fromarray(coloured(array) if labels else grey(array.astype("float64")))
    width = round(image.width * HEIGHT / image.height)
    how = Image.Resampling.NEAREST if labels else Image.Resampling.BICUBIC
    return image.convert("RGB").resize((width, HEIGHT), how)


def save(name, before, after, folder):
    """Write the picture of a pipeline, if it has one."""
    if name not in SHOWN:
        return
    parts = [scaled(flat(array)[SHOWN[name]]) for array in (before, after)]
    picture = Image.new("RGB", (parts[0].width + GAP + parts[1].width, HEIGHT), "white")
    picture.paste(parts[0], (0, 0))
    picture.paste(parts[1], (parts[0].width + GAP, 0))
    Path(folder).mkdir(parents=True, exist_ok=True)
    picture.save(Path(folder) / f"{name}.jpg", quality=75, optimize=True)
