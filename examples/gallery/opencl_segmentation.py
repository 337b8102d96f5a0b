"""Segmentation with pyclesperanto: labels, from an image that it takes to its device."""

import arraybridge as ab
import numpy as np
from scipy import ndimage
from skimage import data

TOLERANCE = 0


def inputs():
    return (data.coins(),)


@ab.pyclesperanto(dtype_conversion="native", output_type="numpy")
def labelled(image):
    import pyclesperanto as cle

    opened = cle.opening_box(cle.greater_constant(image, scalar=120), radius_x=1, radius_y=1)
    return cle.connected_components_labeling(opened, connectivity="box")


def ours(image):
    labels = labelled(image)
    return labels > 0, int(labels.max())


def reference(image):
    box = {"size": 3, "mode": "nearest"}
    opened = ndimage.maximum_filter(ndimage.minimum_filter(image > 120, **box), **box)
    return opened, ndimage.label(opened, [[1] * 3] * 3)[1]


if __name__ == "__main__":
    arrays = inputs()
    results = ours(*arrays)
    for result, expected in zip(map(np.asarray, results), reference(*arrays), strict=True):
        difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
        print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from SciPy")
        assert difference <= TOLERANCE and result.dtype.kind == np.asarray(expected).dtype.kind
