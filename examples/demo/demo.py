"""Send microscopy images through every installed framework, and compare them bit for bit.

Run by `make demo` (frameworks that install quickly) and `make demo-all` (every framework that runs
on a CPU). The exit status is 1 if a single bit differs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import os
import statistics
import sys
import textwrap
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
warnings.filterwarnings("ignore")

import arraybridge as ab  # noqa: E402
import numpy as np  # noqa: E402

LABEL, CELL, WIDTH = 14, 14, 98
WRONG: list[str] = []

# What each framework does with an image, with its own functions: (image) -> image.


def stretch_contrast(image: np.ndarray) -> np.ndarray:
    low, high = np.percentile(image, (1, 99))
    return np.clip((image - low) / (high - low), 0, 1).astype("float32")


def cupy_gradient(image: Any) -> Any:
    import cupy

    return cupy.hypot(*cupy.gradient(image.astype("float32")))


def torch_blur(image: Any) -> Any:
    import torch

    line = torch.exp(-(torch.arange(-4.0, 5.0) ** 2) / 8)
    kernel = (line[:, None] * line / line.sum() ** 2)[None, None]
    return torch.nn.functional.conv2d(image.to(torch.float32)[None, None], kernel, padding=4)[0, 0]


def tensorflow_maximum(image: Any) -> Any:
    import tensorflow as tf

    return tf.nn.max_pool2d(tf.cast(image, tf.float32)[None, :, :, None], 5, 1, "SAME")[0, :, :, 0]


def jax_edges(image: Any) -> Any:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def edges(x: Any) -> Any:
        row, column = jnp.gradient(x.astype(jnp.float32))
        return jnp.hypot(row, column)

    return edges(image)


def pyclesperanto_top_hat(image: Any) -> Any:
    import pyclesperanto as cle

    return cle.top_hat_box(image, radius_x=9, radius_y=9, radius_z=0)


OPERATIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "numpy": ("contrast between the 1st and 99th percentile", stretch_contrast),
    "cupy": ("gradient magnitude", cupy_gradient),
    "torch": ("Gaussian blur by conv2d, sigma 2", torch_blur),
    "tensorflow": ("maximum filter by max_pool2d, 5 x 5", tensorflow_maximum),
    "jax": ("gradient magnitude, jitted", jax_edges),
    "pyclesperanto": ("top hat, radius 9", pyclesperanto_top_hat),
}

# Each framework's own copy to the host, to check arraybridge without arraybridge.
TO_HOST: dict[str, Callable[[Any], np.ndarray]] = {
    "numpy": np.array,
    "cupy": lambda x: x.get(),
    "torch": lambda x: x.detach().cpu().clone().numpy(),
    "tensorflow": lambda x: x.numpy(),
    "jax": lambda x: np.array(x),
    "pyclesperanto": lambda x: x.get(),
}


def load_images(folder: Path) -> dict[str, np.ndarray]:
    """An 8-bit image from scikit-image's wheel and a 16-bit one from StarDist's."""
    import skimage
    import tifffile
    from skimage.io import imread

    cell = imread(Path(skimage.__file__).parent / "data" / "cell.png")
    images = {"a cell, quantitative phase (scikit-image)": np.ascontiguousarray(cell)}
    for wheel in sorted(folder.glob("stardist-*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            nuclei = tifffile.imread(io.BytesIO(archive.read("stardist/data/images/img2d.tif")))
        images["nuclei, fluorescence (StarDist, Data Science Bowl 2018)"] = nuclei
    if len(images) != 2:
        sys.exit(f"the 16-bit image is missing: no stardist wheel in {folder}; run `make demo`")
    return images


def find_frameworks() -> dict[str, str | None]:
    """For each framework, why it cannot be used, or None."""
    found: dict[str, str | None] = {}
    # pyclesperanto before TensorFlow. In another order, arraybridge must do the import.
    for framework in sorted(ab.frameworks(), key=lambda f: f["name"] == "tensorflow"):
        name = framework["name"]
        if importlib.util.find_spec(framework["module"]) is None:
            found[name] = f"not installed (pip install {framework['install']})"
            continue
        try:
            ab.convert(np.zeros((2, 2), "uint8"), name)
            importlib.import_module(framework["module"])
        except Exception as error:
            found[name] = str(error)
        else:
            found[name] = None
    return {f["name"]: found[f["name"]] for f in ab.frameworks()}


def check(what: str, got: np.ndarray, expected: np.ndarray) -> str:
    """Compare every bit, and note a difference for the exit status."""
    same = (
        got.dtype == expected.dtype
        and got.shape == expected.shape
        and np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(expected).tobytes()
    )
    if not same:
        WRONG.append(what)
    return "every bit equal" if same else "DIFFERENT"


def median_ns(call: Callable[[], Any]) -> float:
    """The median duration of a call, measured for a twentieth of a second."""
    call()
    times: list[int] = []
    end = time.perf_counter_ns() + 50_000_000
    while len(times) < 5 or (time.perf_counter_ns() < end and len(times) < 2000):
        start = time.perf_counter_ns()
        result = call()
        times.append(time.perf_counter_ns() - start)
        del result
    return statistics.median(times)


def duration(ns: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        value = ns / size
        if value < 999.5 or unit == "s":
            return f"{value:.3g} {unit}"
    raise AssertionError


def round_trips(title: str, image: np.ndarray, names: list[str]) -> list[np.ndarray]:
    """Convert the image to every framework and back. Return the results of their operations."""
    print(f"\n{title}: {image.dtype}, {image.shape[0]} x {image.shape[1]}")
    print(f"  {'framework':<{LABEL}} {'operation':<46} {'round trip':<16} result")
    x: Any = image
    results = [image]
    for name in names:
        text, operation = OPERATIONS[name]
        there = ab.convert(image, name)
        back = check(f"{title}, round trip to {name}", ab.convert(there, "numpy"), image)
        result = operation(there)
        expected = TO_HOST[name](result)
        outcome = check(f"{title}, result of {name}", ab.convert(result, "numpy"), expected)
        results.append(expected)
        print(f"  {name:<{LABEL}} {text:<46} {back:<16} {outcome}")
        x = ab.convert(x, name)
    chain = check(f"{title}, chain", ab.convert(x, "numpy"), image)
    print(f"  through all of them, one after the other: {chain}")
    return results


def draw(rows: list[list[np.ndarray]], names: list[str], path: Path) -> None:
    """A picture of the images and of what each framework did with them."""
    from PIL import Image, ImageDraw

    side, top, gap = 220, 34, 8
    titles = [("the image", ""), *((name, OPERATIONS[name][0]) for name in names)]
    picture = Image.new(
        "RGB", ((side + gap) * len(titles), top + (side + gap) * len(rows)), "white"
    )
    pen = ImageDraw.Draw(picture)
    for column, (name, what) in enumerate(titles):
        at = (side + gap) * column + 4
        pen.text((at, 3), name, fill="black", font_size=13)
        pen.text((at, 18), what, fill="dimgrey", font_size=10)
        for row, results in enumerate(rows):
            low, high = np.percentile(results[column], (0.5, 99.5))
            grey = np.clip((results[column] - low) / max(high - low, 1e-9), 0, 1) * 255
            image = Image.fromarray(grey.astype("uint8")).resize((side, side))
            picture.paste(image, (at - 4, top + (side + gap) * row))
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    print(f"\nWhat each framework did: {path.resolve()}")


def label(record: Any, memory: dict[str, str]) -> str:
    """The route, or its direction if it copies to or from an accelerator."""
    if record.route == "copy":
        source = memory[record.source] == "accelerator"
        target = memory[record.target] == "accelerator"
        if target and not source:
            return "upload"
        if source and not target:
            return "download"
    return record.route


def matrix(image: np.ndarray, absent: dict[str, str | None]) -> None:
    """Print the route and the time of every pair, then the reason for each copy."""
    memory = {f["name"]: f["memory"] for f in ab.frameworks()}
    there = {name: ab.convert(image, name) for name, why in absent.items() if why is None}
    reasons: dict[str, list[str]] = {}
    print(
        f"\nRoute and median time of all pairs, {image.dtype}, {image.shape[0]} x {image.shape[1]} "
        "(rows are sources)"
    )
    print(" " * LABEL + "".join(f"{name:>{CELL}}" for name in absent))
    for source in absent:
        routes, times = [], []
        for target in absent:
            if absent[source] or absent[target]:
                missing = (absent[source] or "") + (absent[target] or "")
                routes.append("not installed" if "not installed" in missing else "unavailable")
                times.append("")
                continue
            x = there[source]
            record = ab.explain(x, target)
            routes.append(label(record, memory))
            times.append(duration(median_ns(lambda x=x, target=target: ab.convert(x, target))))
            check(f"{source} to {target}", TO_HOST[target](ab.convert(x, target)), image)
            if record.why:
                reasons.setdefault(record.why, []).append(f"{source} to {target}")
        print(f"{source:<{LABEL}}" + "".join(f"{route:>{CELL}}" for route in routes))
        if any(times):
            print((" " * LABEL + "".join(f"{t:>{CELL}}" for t in times)).rstrip())
    print("\nReasons for copies")
    for why, pairs in reasons.items():
        say(f"{', '.join(pairs)}: {why}")
    missing = {name: why for name, why in absent.items() if why}
    if missing:
        print("\nNot included")
        for name, why in missing.items():
            say(f"{name}: {why}")


def say(text: str) -> None:
    """Print a paragraph, indented."""
    print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=Path("build/images"))
    parser.add_argument("--picture", type=Path, default=Path("build/demo.png"))
    options = parser.parse_args()
    images = load_images(options.images)
    absent = find_frameworks()
    names = [name for name, why in absent.items() if why is None]
    print(f"arraybridge {ab.__version__} with {', '.join(names)}")
    rows = [round_trips(title, image, names) for title, image in images.items()]
    matrix(images[list(images)[-1]], absent)
    draw(rows, names, options.picture)
    if WRONG:
        print("\nDIFFERENT: " + "; ".join(WRONG))
        return 1
    print("\nAll conversions were equal, bit for bit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
