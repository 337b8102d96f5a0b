"""A program that `make frozen` freezes. It names no part of arraybridge that is found by a name."""

import importlib
import sys

import arraybridge as ab
import numpy as np


@ab.numpy(slice_by_slice=True, output_type="input")
def brighter(image):
    return image + np.float32(0.25)


@ab.numpy(tiles=(2, 2), halo=1)
def smoothed(image):
    return image


def main() -> None:
    is_frozen = getattr(sys, "frozen", False) or "__compiled__" in globals()  # the latter by Nuitka
    assert is_frozen, "this program was not frozen"
    image = np.arange(24, dtype=">u2").reshape(2, 3, 4)[:, ::2]
    converted = ab.convert(image, "numpy", dtype="bfloat16")
    assert converted.dtype.name == "bfloat16" and np.array_equal(converted, image)
    assert np.array_equal(brighter(image.astype("f4")), image + np.float32(0.25))
    assert np.array_equal(smoothed(image[0]), image[0])
    assert np.array_equal(ab.convert(ab.Tensor(image.astype("u2")), "numpy"), image)
    try:
        ab.convert(image, "torch")
    except ab.FrameworkNotInstalledError as error:
        assert "torch" in str(error), error
    # What the package imports by a name that is computed, and what its Rust code imports.
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print(f"frozen: {len(sys.argv) - 1} modules imported, arraybridge {ab.__version__}")


main()
