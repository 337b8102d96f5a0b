"""Run the programs of this folder, each of which compares its result with one without arraybridge.

Run by `make gallery`. The exit status is 1 if a program fails. `--pictures FOLDER` writes pictures
of some results beside their images.
"""

import argparse
import os
import runpy
import sys
import time
import warnings
from pathlib import Path

import arraybridge as ab

HERE = Path(__file__).resolve().parent
# Those with processes of their own come before TensorFlow and JAX have started threads.
FIRST = ("dataloader", "joblib_workers")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
WRONG = (ab.NarrowedDtypeWarning, ab.GradientDetachedWarning, ab.OomFallbackWarning)

PIPELINES = sorted(
    {path.stem for path in HERE.glob("*.py")} - {"run", "pictures"},
    key=lambda name: (name not in FIRST, name),
)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", help="a folder for pictures of the results")
    parser.add_argument("names", nargs="*", help="some programs instead of all")
    options = parser.parse_args(arguments)
    for kind in WRONG:
        warnings.simplefilter("error", kind)
    failed = 0
    for name in options.names or PIPELINES:
        start = time.perf_counter()
        print(f"{name}: ", end="", flush=True)
        try:
            ran = runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        except ModuleNotFoundError as error:
            print(f"skipped: {error.name} is not installed")
            continue
        except Exception as error:
            failed += 1
            print(f"FAILED: {type(error).__name__}: {error}")
            continue
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
        if options.pictures:
            from pictures import save

            result = ran["results"][0] if "results" in ran else ran["result"]
            save(name, ran["arrays"][0], result, options.pictures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
