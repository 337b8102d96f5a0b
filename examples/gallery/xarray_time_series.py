"""A labelled series of images: the result has its axes, its times and its attributes."""

import arraybridge as ab
import numpy as np
from images import stack

NEEDS, TOLERANCE = ("torch", "xarray"), 0


def inputs():
    import xarray

    times = {"t": np.arange(8) * 0.5}
    attrs = {"microscope": "confocal"}
    return (xarray.DataArray(stack(), dims=("t", "y", "x"), coords=times, attrs=attrs),)


@ab.torch(output_type="input")
def background_removed(images):
    return images.float() - images.float().amin(0)


def ours(series):
    result = background_removed(series)
    assert result.attrs == series.attrs
    return result.sel(t=[0.5, 1.0, 1.5, 2.0])


def reference(series):
    return (series - series.min("t")).sel(t=[0.5, 1.0, 1.5, 2.0]).values.astype("uint16")
