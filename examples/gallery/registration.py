"""The shift between two images by phase correlation, as a pair of integers."""

import arraybridge as ab
import numpy as np
from skimage import data

TOLERANCE = 0


def inputs():
    image = data.camera()
    return image[40:296, 60:316], image[47:303, 49:305]


@ab.torch(arrays=("fixed", "moving"))
def shift(fixed, moving):
    import torch

    a, b = (torch.fft.fft2(x.double()) for x in (fixed, moving))
    product = a * b.conj()
    peak = torch.fft.ifft2(product / product.abs().clamp(min=1e-12)).real.argmax().item()
    found = divmod(peak, fixed.shape[1])
    sizes = zip(found, fixed.shape, strict=True)
    return tuple(at - size if at > size // 2 else at for at, size in sizes)


def ours(fixed, moving):
    return np.array(shift(fixed, moving))


def reference(fixed, moving):
    from skimage.registration import phase_cross_correlation

    return phase_cross_correlation(fixed, moving)[0].astype(int)


if __name__ == "__main__":
    arrays = inputs()
    result, expected = np.asarray(ours(*arrays)), reference(*arrays)
    difference = np.abs(np.subtract(result, expected, dtype="float64")).max()
    print(f"{result.dtype} {result.shape}, differs by {difference:.2g} from scikit-image")
    assert difference <= TOLERANCE and result.dtype == expected.dtype
