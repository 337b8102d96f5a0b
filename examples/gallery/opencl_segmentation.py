"""Segmentation with pyclesperanto: labels, from an image that it takes to its device."""

import arraybridge as ab
from images import coins
from scipy import ndimage

NEEDS, TOLERANCE = ("pyclesperanto",), 0


def inputs():
    return (coins(),)


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
