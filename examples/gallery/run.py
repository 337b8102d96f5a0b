"""Run the pipelines of this folder, and compare each with plain NumPy, SciPy or its framework.

Run by `make gallery`. The exit status is 1 if a result differs. `--pictures FOLDER` writes pictures
of some results beside their images.
"""

import argparse
import importlib
import importlib.util
import os
import sys
import time
import warnings
from pathlib import Path

import arraybridge as ab
import numpy as np

HERE = Path(__file__).resolve().parent
# Those with processes of their own come before TensorFlow and JAX have started threads.
FIRST = ("dataloader", "joblib_workers")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Worker processes import the pipelines by their names.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(HERE))

EXPECTED = (DeprecationWarning, ab.FractionsLostWarning, ab.ClippedValuesWarning)
WRONG = (ab.NarrowedDtypeWarning, ab.GradientDetachedWarning, ab.OomFallbackWarning)

PIPELINES = sorted(
    {path.stem for path in HERE.glob("*.py")} - {"run", "images", "pictures"},
    key=lambda name: (name not in FIRST, name),
)


def difference(result, expected):
    """The largest difference. Shapes and dtypes must be equal."""
    if isinstance(result, tuple):
        return max(difference(*pair) for pair in zip(result, expected, strict=True))
    result, expected = (np.asarray(array) for array in (result, expected))
    if result.shape != expected.shape:
        raise AssertionError(f"shape {result.shape} instead of {expected.shape}")
    if result.dtype.kind != expected.dtype.kind:
        raise AssertionError(f"dtype {result.dtype} instead of {expected.dtype}")
    return np.abs(result.astype("float64") - expected.astype("float64")).max()


def compare(name, pictures=None):
    """Run a pipeline. Return what to print of it."""
    pipeline = importlib.import_module(name)
    for needed in pipeline.NEEDS:
        if importlib.util.find_spec(needed) is None:
            return f"skipped: {needed} is not installed"
    inputs = pipeline.inputs()
    start = time.perf_counter()
    with warnings.catch_warnings():
        for kind in EXPECTED:
            warnings.simplefilter("ignore", kind)
        for kind in WRONG:
            warnings.simplefilter("error", kind)
        result = pipeline.ours(*inputs)
        found = difference(result, pipeline.reference(*inputs))
    if found > pipeline.TOLERANCE:
        raise AssertionError(f"differs by {found}, more than {pipeline.TOLERANCE}")
    if pictures:
        from pictures import save

        save(name, inputs[0], result, pictures)
    close = f"differs by {found:.2g}, at most {pipeline.TOLERANCE:g}" if found else "equal"
    return f"{close}, {time.perf_counter() - start:.1f} s"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", help="a folder for pictures of the results")
    parser.add_argument("names", nargs="*", help="some pipelines instead of all")
    options = parser.parse_args(arguments)
    failed = 0
    for name in options.names or PIPELINES:
        try:
            outcome = compare(name, options.pictures)
        except Exception as error:
            failed += 1
            outcome = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name:<20} {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
