"""Read GeoTIFFs into the arrays of any framework.

``read(path, "torch")`` returns the pixels, as rasterio's ``read`` does. ``GeoTiff(path)`` also has
their location and meaning. ``xarray.open_dataarray(path, engine="geotiff", framework="jax")``
returns bands, rows and columns with coordinates. It reads lazily, and only the parts that are
needed.
"""

import arraybridge
import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ._geotiff import GeoTiff

__all__ = ["Backend", "GeoTiff", "read"]


def read(path, framework="numpy", device=None, *, bands=None, window=None, overview=None):
    """The pixels (band, y, x) as an array of ``framework``.

    ``bands`` counts from 1, ``overview`` from 0, and ``window`` is ((first row, last row + 1),
    (first column, last column + 1)). A damaged file is a ValueError, and so are more than
    4 GiB; ``GeoTiff(path, max_bytes=...)`` sets another limit.
    """
    tensor = GeoTiff(path, overview).read(bands, window)
    return arraybridge.convert(tensor, framework, device=device)


class Pixels(BackendArray):
    """An array that xarray reads parts of."""

    def __init__(self, file, framework, device):
        self.file, self.framework, self.device = file, framework, device
        self.shape, self.dtype = file.shape, numpy.dtype(file.dtype)
        # A framework that cannot hold the pixels fails here, and not at the first use.
        array = self.place(numpy.zeros((1, 1, 1), self.dtype))
        if not (hasattr(array, "__array_namespace__") or hasattr(array, "__array_function__")):
            raise ValueError(
                f"xarray cannot hold arrays of {framework}, which lack the array API's namespace; "
                "take them from geotiff.read"
            )

    def place(self, array):
        return arraybridge.convert(array, self.framework, device=self.device)

    def __getitem__(self, key):
        support = indexing.IndexingSupport.BASIC
        array = indexing.explicit_indexing_adapter(key, self.shape, support, self.part)
        return self.place(numpy.asarray(array))

    def part(self, key):
        """The pixels of integers and slices that run forwards."""
        slices = [k if isinstance(k, slice) else slice(k, k + 1) for k in key]
        band, *window = (range(size)[k] for size, k in zip(self.shape, slices, strict=True))
        tensor = self.file.read(
            [number + 1 for number in band],
            tuple((part.start, max(part.start, part.stop)) for part in window),
        )
        pixels = numpy.asarray(tensor)[:, :: window[0].step, :: window[1].step]
        return pixels[tuple(slice(None) if isinstance(k, slice) else 0 for k in key)]


class Backend(BackendEntrypoint):
    """The engine "geotiff" of xarray."""

    description = "GeoTIFFs, decoded in Rust"
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "framework",
        "device",
        "overview",
        "max_bytes",
    )

    def open_dataset(
        self,
        filename_or_obj,
        *,
        drop_variables=None,
        framework="numpy",
        device=None,
        overview=None,
        max_bytes=1 << 32,
    ):
        file = GeoTiff(filename_or_obj, overview, max_bytes)
        bands, height, width = file.shape
        rows, columns = file.block_shape
        coordinates = {"band": numpy.arange(1, bands + 1)}
        attributes = {"scales": file.scales, "offsets": file.offsets}
        if file.epsg is not None:
            attributes["crs"] = f"EPSG:{file.epsg}"
        if file.nodata is not None:
            attributes["nodata"] = file.nodata
        if any(file.descriptions):
            attributes["descriptions"] = file.descriptions
        if file.transform is not None:
            a, b, c, d, e, f = attributes["transform"] = file.transform
            if b == d == 0:
                coordinates["x"] = c + a * (numpy.arange(width) + 0.5)
                coordinates["y"] = f + e * (numpy.arange(height) + 0.5)
        pixels = xarray.Variable(
            ("band", "y", "x"),
            indexing.LazilyIndexedArray(Pixels(file, framework, device)),
            attributes,
            {"preferred_chunks": {"band": bands, "y": rows, "x": columns}},
        )
        data = xarray.Dataset({"pixels": pixels}, coordinates)
        return data.drop_vars(drop_variables or [])

    def guess_can_open(self, filename_or_obj):
        return str(filename_or_obj).lower().endswith((".tif", ".tiff"))
