"""A declared function goes to joblib's processes, and its records and results come back."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


def stack():
    """Eight parts of a photo with 12 of 16 bits, uint16, 8 x 128 x 128."""
    photo = data.camera().astype("uint16") * 16
    return np.stack([photo[at : at + 128, at : at + 128] for at in range(0, 384, 48)])


def inputs():
    return (stack(),)


@ab.torch(output_type="input", dtype_conversion="float32")
def normalised(image):
    x = image.float()
    return (x - x.amin()) / (x.amax() - x.amin())


def traced(image):
    with ab.trace() as records:
        return normalised(image), list(records)


def ours(images):
    import joblib

    work = joblib.delayed(traced)
    results = joblib.Parallel(n_jobs=2)(work(image) for image in images)
    assert all(records[0].target == "torch" for _, records in results)
    return np.stack([image for image, _ in results])


def reference(images):
    x = images.astype("float32")
    low, high = (f(x, axis=(1, 2), keepdims=True) for f in (np.min, np.max))
    return (x - low) / (high - low)


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from NumPy")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
