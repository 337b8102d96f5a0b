"""Arrays in a dict and in a dataclass, as arguments and as results."""

from dataclasses import dataclass
from typing import Any

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


@dataclass
class Frame:
    image: Any
    exposure: float


def inputs():
    return ({"frame": data.camera(), "dark": np.full((512, 512), 7, "uint8")},)


@ab.jax(output_type="numpy", dtype_conversion="native")
def corrected(channels):
    image = channels["frame"].astype("int32") - channels["dark"]
    return Frame(image, 0.5)


@ab.torch(output_type="numpy", dtype_conversion="preserve")
def brighter(frame):
    return {"image": frame.image / frame.exposure, "exposure": frame.exposure}


def ours(channels):
    result = brighter(corrected(channels))
    assert type(result["image"]) is np.ndarray
    return result["image"]


def reference(channels):
    return (channels["frame"].astype("int32") - channels["dark"]) * 2


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
