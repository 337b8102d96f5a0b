from typing import Annotated, Any, NamedTuple

class Edges(NamedTuple):
    """The strength and the direction of the edges of an image."""

    strength: Annotated[Any, "float32, 2"]
    direction: Annotated[Any, "float32, 2"]

class Gaussian:
    """A Gaussian of `sigma` pixels, to be applied to many images."""

    def __init__(self, sigma: Any) -> None: ...
    def apply(
        self,
        image: Annotated[Any, "float32, 2"],
        *,
        dtype_conversion: Any = None,
        slice_by_slice: bool = False,
    ) -> Annotated[Any, "float32, 2"]:
        """Smooth an image, as `gaussian` does."""

def accumulate(
    image: Annotated[Any, "float32, 2"],
    out: Annotated[Any, "float32, 2"],
    *,
    slice_by_slice: bool = False,
) -> None:
    """Add an image to a sum, in place."""

def despeckle(
    image: Annotated[Any, "float32, 2"],
    radius: int = 1,
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """The same median for compiled programs, which run without Python: Ctrl-C does not end it."""

def edges(
    image: Annotated[Any, "float32, 2"],
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Edges:
    """Sobel's operator, with the direction of each edge in radians."""

def extrema(
    image: Annotated[Any, "uint8 | uint16 | float32, 2"], *, slice_by_slice: bool = False
) -> tuple[int | float, int | float]:
    """The smallest and the largest pixel of an image."""

def gaussian(
    image: Annotated[Any, "float32, 2"],
    sigma: float = 1.0,
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """Smooth an image with a Gaussian of `sigma` pixels, mirrored at the edges.

    The result is float32, of the framework of `image`."""

def mean_of(
    images: list[Annotated[Any, "float32, 2"]],
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """The mean of images of one shape."""

def median(
    image: Annotated[Any, "float32, 2"],
    radius: int = 1,
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """The median of each pixel's square of `radius` pixels on each side, mirrored at the edges.

    Other threads run meanwhile, and Ctrl-C ends it."""

def otsu(image: Any, *, slice_by_slice: bool = False) -> int:
    """The threshold that best separates the values of a uint8 or uint16 image, by Otsu's method."""

def sobel(
    image: Annotated[Any, "float32, 2"],
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "float32, 2"]:
    """The strength of the edges of an image, by Sobel's operator.

    The result is float32, of the framework of `image`."""

def sobel_cuda(
    image: Annotated[Any, "float32"], *, dtype_conversion: Any = None, slice_by_slice: bool = False
) -> Annotated[Any, "float32"]:
    """The strength of the edges of an image, by Sobel's operator, on a CUDA device.

    The image is float32; the result is of its framework."""

def subtract_background(
    image: Annotated[Any, "float32, 2"],
    background: Annotated[Any, "float32, 2"],
    *,
    dtype_conversion: Any = None,
    slice_by_slice: bool = False,
) -> Annotated[Any, "Any, 2"]:
    """Subtract a background of the same shape from an image.

    Values below 0 become 0. The result has the element type and the framework of `image`."""
