"""Read GeoTIFFs into the arrays of any framework.

``xarray.open_dataarray(path, engine="geotiff", framework="jax")`` gives bands, rows and columns
with coordinates, in arrays of that framework. xarray itself turns arrays that lack the array API's
namespace, as PyTorch and TensorFlow do, into NumPy's; ``read`` does not.
"""

import arraybridge
import numpy
import xarray
from xarray.backends import BackendEntrypoint

from ._core import decode

__all__ = ["Backend", "decode", "read"]


def read(path, framework="numpy", device=None):
    """The pixels (band, y, x) as an array of ``framework``, the transform and the EPSG code."""
    tensor, transform, epsg = decode(path)
    return arraybridge.convert(tensor, framework, device=device), transform, epsg


class Backend(BackendEntrypoint):
    """The engine "geotiff" of xarray."""

    description = "GeoTIFFs, decoded in Rust"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "framework", "device")

    def open_dataset(self, filename_or_obj, *, drop_variables=None, framework="numpy", device=None):
        pixels, transform, epsg = read(filename_or_obj, framework, device)
        bands, height, width = pixels.shape
        coordinates = {"band": numpy.arange(1, bands + 1)}
        attributes = {}
        if epsg is not None:
            attributes["crs"] = f"EPSG:{epsg}"
        if transform is not None:
            a, b, c, d, e, f = attributes["transform"] = transform
            if b == d == 0:
                coordinates["x"] = c + a * (numpy.arange(width) + 0.5)
                coordinates["y"] = f + e * (numpy.arange(height) + 0.5)
        data = xarray.DataArray(
            pixels, dims=("band", "y", "x"), coords=coordinates, attrs=attributes, name="pixels"
        )
        return data.to_dataset().drop_vars(drop_variables or [])

    def guess_can_open(self, filename_or_obj):
        return str(filename_or_obj).lower().endswith((".tif", ".tiff"))
