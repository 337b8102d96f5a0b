"""Process a real 16-bit stack of images with functions declared for PyTorch, JAX and pyclesperanto.

Each step declares only the framework that it is written for, and is called with the array that the
previous step returned. Intensities stay uint16 throughout. Masks and labels have their own dtypes.
Every result is compared with NumPy, SciPy and scikit-image. The exit status is 1 if one differs.

Run by `make pipeline`.
"""

from __future__ import annotations

import argparse
import io
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arraybridge as ab
import numpy as np

# Newer releases of pyclesperanto deprecate these names, but every release has them.
warnings.filterwarnings("ignore", category=DeprecationWarning)

SIGMA, RADIUS = 1.5, 6
NATIVE = ab.DtypeConversion.NATIVE_OUTPUT
WRONG: list[str] = []


@ab.torch
def blur(stack: Any) -> Any:
    """Blur each slice in float64. The declaration rounds the result to uint16."""
    import torch

    line = torch.exp(-(torch.arange(-RADIUS, RADIUS + 1, dtype=torch.float64) ** 2) / 2 / SIGMA**2)
    line /= line.sum()
    x = stack.to(torch.float64)[:, None]
    x = torch.nn.functional.conv2d(x, line[None, None, :, None], padding=(RADIUS, 0))
    return torch.nn.functional.conv2d(x, line[None, None, None, :], padding=(0, RADIUS))[:, 0]


@ab.jax(dtype_conversion=NATIVE)
def segment(stack: Any) -> Any:
    """The mask, as uint8, of the pixels that are brighter than Otsu's threshold."""
    import jax.numpy as jnp

    x = stack.astype(jnp.int32)
    low = x.min()
    count = jnp.bincount((x - low).ravel(), length=1024)
    level = jnp.arange(1024) + low
    below, total = jnp.cumsum(count), jnp.cumsum(count * level)
    above, rest = x.size - below, total[-1] - total
    apart = total / jnp.maximum(below, 1) - rest / jnp.maximum(above, 1)
    between = below.astype(float) * above.astype(float) * apart**2
    return (x > level[jnp.argmax(between)]).astype(jnp.uint8)


@ab.pyclesperanto(dtype_conversion=NATIVE)
def nuclei(mask: Any) -> Any:
    """Label the connected parts of the mask, without those that are smaller than a box."""
    import pyclesperanto as cle

    opened = cle.opening_box(mask, radius_x=1, radius_y=1, radius_z=1)
    return cle.connected_components_labeling(opened, connectivity="box")


@ab.pyclesperanto
def top_hat(stack: Any) -> Any:
    """The stack without its background."""
    import pyclesperanto as cle

    return cle.top_hat_box(stack, radius_x=5, radius_y=5, radius_z=0)


@ab.numpy(arrays=("stack", "labels"))
def brightness(stack: np.ndarray, labels: np.ndarray) -> dict[int, float]:
    """The mean intensity of each nucleus."""
    counts = np.bincount(labels.ravel())
    sums = np.bincount(labels.ravel(), stack.ravel())
    return {number: float(sums[number] / counts[number]) for number in range(1, len(counts))}


@ab.torch(split_axis=0)
def greedy_blur(stack: Any) -> Any:
    """`blur` with a workspace that fails on any machine for 31 slices, and fits for 16."""
    import torch

    torch.empty(1 << max(2 * len(stack) - 15, 0))
    return blur(stack)


def blur_in_scipy(stack: Any) -> np.ndarray:
    """Replaces `hopeless_blur` on the host."""
    from scipy import ndimage

    x = np.asarray(stack).astype("float64")
    return ndimage.gaussian_filter(
        x, (0, SIGMA, SIGMA), mode="constant", radius=(0, RADIUS, RADIUS)
    )


@ab.torch(host=blur_in_scipy, on_oom=("clear", "host"))
def hopeless_blur(stack: Any) -> Any:
    """A function that runs out of memory at any size."""
    import torch

    return torch.empty(1 << 47)


def load_stack(folder: Path) -> np.ndarray:
    """A 16-bit stack of 31 real slices, from the test data in StarDist's wheel."""
    import tifffile

    for wheel in sorted(folder.glob("stardist-*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            return tifffile.imread(io.BytesIO(archive.read("stardist/data/images/img3d.tif")))
    sys.exit(f"the 16-bit stack is missing: no stardist wheel in {folder}; run `make pipeline`")


def reference(stack: np.ndarray) -> dict[str, Any]:
    """The same steps with only NumPy, SciPy and scikit-image."""
    from scipy import ndimage
    from skimage.filters import threshold_otsu

    blurred = np.rint(blur_in_scipy(stack)).astype("uint16")
    mask = (blurred > threshold_otsu(blurred)).astype("uint8")
    box = {"size": 3, "mode": "nearest"}
    opened = ndimage.maximum_filter(ndimage.minimum_filter(mask, **box), **box)
    size = {"size": (1, 11, 11), "mode": "nearest"}
    background = ndimage.maximum_filter(ndimage.minimum_filter(stack, **size), **size)
    labels = ndimage.label(opened, np.ones((3, 3, 3)))[0]
    return {"blur": blurred, "mask": mask, "labels": labels, "top hat": stack - background}


def check(step: str, same: bool, what: str) -> None:
    """Print whether a result is right, and note it for the exit status."""
    if not same:
        WRONG.append(step)
    print(f"  {step:<16}{what:<52}{'equal to the reference' if same else 'DIFFERENT'}")


def described(array: Any) -> str:
    """Framework, dtype, shape and range of a result."""
    values = ab.convert(array, "numpy")
    framework = ab.detect_memory_type(array)
    return f"{framework} {values.dtype} {values.shape}, {values.min()} to {values.max()}"


def same(array: Any, expected: np.ndarray) -> bool:
    """Whether dtype and every value are as expected."""
    values = ab.convert(array, "numpy")
    return values.dtype == expected.dtype and np.array_equal(values, expected)


def renumbered(labels: np.ndarray) -> np.ndarray:
    """Labels renumbered in the order of their first appearance."""
    values, first = np.unique(labels, return_index=True)
    order = np.argsort(first[values > 0])
    table = np.zeros(int(labels.max()) + 1, "int64")
    table[values[values > 0][order]] = np.arange(1, len(order) + 1)
    return table[labels]


def show(records: list[Any]) -> None:
    """Print what arraybridge did on the way."""
    for record in records:
        text = f"{record.source} -> {record.target}: {record.route} ({record.how})"
        if record.shape:
            text += f", {record.dtype}{list(record.shape)}"
        print(f"    {text}{'; ' + record.why if record.why else ''}")


def steps(stack: np.ndarray, expected: dict[str, Any]) -> None:
    """Run the pipeline. Each step gets the result of the previous one."""
    print("\nOne step in each framework")
    with ab.trace() as records:
        blurred = blur(stack)
        mask = segment(blurred)
        labels = nuclei(mask)
        flat = top_hat(stack)
        table = brightness(blurred, labels)
    check("blur", same(blurred, expected["blur"]), described(blurred))
    check("segment", same(mask, expected["mask"]), described(mask))
    found = renumbered(ab.convert(labels, "numpy"))
    check("nuclei", np.array_equal(found, renumbered(expected["labels"])), described(labels))
    check("top hat", same(flat, expected["top hat"]), described(flat))
    means = [
        expected["blur"][expected["labels"] == number].mean()
        for number in range(1, int(expected["labels"].max()) + 1)
    ]
    close = len(means) == len(table) and np.allclose(sorted(table.values()), sorted(means))
    check("brightness", close, f"{len(table)} nuclei, {min(means):.1f} to {max(means):.1f}")
    print("  conversions")
    show(records)


def out_of_memory(stack: np.ndarray, expected: dict[str, Any]) -> None:
    """Run out of memory for real, and recover."""
    print("\nRunning out of memory")
    tries: list[tuple[str, Callable[[Any], Any]]] = [
        ("split", greedy_blur),
        ("host", hopeless_blur),
    ]
    for rung, function in tries:
        with ab.trace() as records, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ab.OomFallbackWarning)
            blurred = function(stack)
        held = [record.how for record in records if record.route == "retry"]
        warned = [w for w in caught if issubclass(w.category, ab.OomFallbackWarning)]
        right = same(blurred, expected["blur"]) and held == [rung]
        check(rung, right and bool(warned) == (rung == "host"), described(blurred))
        show([record for record in records if record.route == "retry"])
        for warning in warned:
            print(f"    {warning.category.__name__}: {warning.message}")


def main() -> int:
    """Run the pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=Path("build/images"))
    stack = load_stack(parser.parse_args().images)
    print(f"a stack of nuclei (StarDist): {described(stack)}")
    expected = reference(stack)
    steps(stack, expected)
    out_of_memory(stack, expected)
    if WRONG:
        print("\nDIFFERENT: " + ", ".join(WRONG))
        return 1
    print("\nEvery result equals that of NumPy, SciPy and scikit-image.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
