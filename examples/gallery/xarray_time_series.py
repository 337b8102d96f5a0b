"""An xarray goes in as NumPy sees it. Its coordinates are put back by the caller."""

import arraybridge as ab
import numpy as np
from images import stack

NEEDS, TOLERANCE = ("torch", "xarray"), 0


def inputs():
    import xarray

    images = stack()
    return (xarray.DataArray(images, dims=("t", "y", "x"), coords={"t": np.arange(8) * 0.5}),)


@ab.torch(output_type="numpy")
def background_removed(images):
    return images.int() - images.int().amin(0)


def ours(series):
    return series.copy(data=background_removed(series)).sel(t=1.5).values


def reference(series):
    return (series - series.min("t")).sel(t=1.5).values.astype("int32")
