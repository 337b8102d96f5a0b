"""A workspace that no machine has for more than two images: the call is split until it fits."""

import arraybridge as ab
import numpy as np
from images import stack

NEEDS, TOLERANCE = (), 0


def inputs():
    return (stack(),)


@ab.numpy(split_axis=0, on_oom=("split",))
def squared(images):
    np.empty(1 << (46 if len(images) > 2 else 20), "uint8")
    return np.minimum(images.astype("uint32") ** 2, 65535)


def ours(images):
    with ab.trace() as records:
        result = squared(images)
    assert {record.how for record in records if record.route == "retry"} == {"split"}
    return result


def reference(images):
    return np.minimum(images.astype("uint32") ** 2, 65535).astype("uint16")
