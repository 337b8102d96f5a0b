"""A labelled series of images: the result has its axes, its times and its attributes."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])


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


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from xarray")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
