"""Process a plate of 16-bit images on Ray's workers, and lose one of them on the way.

The functions are those of the Dask example, declared for PyTorch, JAX and NumPy. Each well of the
plate is an array in Zarr. A task gives the arrays of a well to the functions, which read and write
them part by part, and returns its records and the area of the masks. The plate is larger than the
memory that all workers together may use for it. A worker is killed when a few wells are done; Ray
runs its tasks again. The results are compared with those of one process. The exit status is 1 if a
result differs, or if a worker needs more memory.

Run by `make ray`.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

# The workers import the functions too.
FUNCTIONS = Path(__file__).resolve().parents[1] / "dask"
os.environ["PYTHONPATH"] = os.pathsep.join([str(FUNCTIONS), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(FUNCTIONS))

import arraybridge as ab  # noqa: E402
import numpy as np  # noqa: E402
import ray  # noqa: E402
import zarr  # noqa: E402
from plate_functions import (  # noqa: E402
    area,
    blur,
    bright,
    fields,
    memory_of_process,
    without_background,
)

IMAGES_IN_WELL = 40
IMAGES_IN_BLOCK = 4
MIB = 1 << 20
DTYPES = {"images": "uint16", "blurred": "uint16", "cleaned": "uint16", "masks": "bool"}


def arrays_of(folder: str, well: int) -> list[Any]:
    return [zarr.open_array(Path(folder) / str(well) / name) for name in DTYPES]


# Without retry_exceptions, Ray only repeats tasks whose worker has died.
@ray.remote(max_retries=3)
def process(
    folder: str, well: int, limit: int
) -> tuple[int, int, int, list[ab.Record], list[ab.Record]]:
    """Process one well. Running it again writes the same."""
    images, blurred, cleaned, masks = arrays_of(folder, well)
    memory = memory_of_process(images.shape[-1], limit)
    trace = ab.trace()
    with trace:
        blur(images, out=blurred)
        without_background(blurred, out=cleaned)
        bright(cleaned, out=masks)
        total = area(masks)
    return os.getpid(), total, memory.peak(), trace.records, trace.spans


def make_plate(folder: Path, wells: int, size: int) -> None:
    """Arrays for each well: one with images, and empty ones for the results."""
    for well in range(wells):
        for name, dtype in DTYPES.items():
            zarr.create_array(
                folder / str(well) / name,
                shape=(IMAGES_IN_WELL, size, size),
                chunks=(1, size, size),
                dtype=dtype,
            )
        images = arrays_of(str(folder), well)[0]
        for start in range(0, IMAGES_IN_WELL, IMAGES_IN_BLOCK):
            images[start : start + IMAGES_IN_BLOCK] = fields(
                well * IMAGES_IN_WELL + start, IMAGES_IN_BLOCK, size
            )


def on_ray(
    folder: Path, wells: int, limit: int
) -> tuple[int, ab.trace, collections.Counter[int], dict[int, int]]:
    """Return the area of all masks, one trace, and the wells and the peaks by worker."""
    waiting = [process.remote(str(folder), well, limit) for well in range(wells)]
    total, whole = 0, ab.trace()
    done: collections.Counter[int] = collections.Counter()
    peaks: dict[int, int] = {}
    while waiting:
        (ready,), waiting = ray.wait(waiting)
        pid, found, peaks[pid], records, spans = ray.get(ready)
        done[pid] += 1
        total += found
        whole.records += records
        whole.spans += spans
        show(sum(done.values()), wells)
        if sum(done.values()) == 3:
            os.kill(pid, signal.SIGKILL)
            print(f"killed worker {pid}")
    return total, whole, done, peaks


def show(done: int, of: int) -> None:
    """A bar on a terminal."""
    if sys.stderr.isatty():
        print(f"\rwells: {done}/{of}", end="\n" * (done == of), file=sys.stderr, flush=True)


def differences(folder: Path, wells: int, total: int) -> list[str]:
    """What is not as this process makes it of arrays in memory, some images at a time."""
    wrong, known_total = [], 0
    for well in range(wells):
        images, _, cleaned, masks = arrays_of(str(folder), well)
        for start in range(0, IMAGES_IN_WELL, IMAGES_IN_BLOCK):
            some = slice(start, start + IMAGES_IN_BLOCK)
            known = without_background(blur(images[some]))
            known_masks = bright(known)
            known_total += int(known_masks.sum())
            for name, found, expected in (
                ("images", cleaned[some], known),
                ("masks", masks[some], known_masks),
            ):
                if found.dtype != expected.dtype or not np.array_equal(found, expected):
                    wrong.append(f"{name} of well {well} from {start} on")
    return wrong if total == known_total else [*wrong, "areas"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wells", type=int, default=10, help=f"of {IMAGES_IN_WELL} images")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--limit", type=int, default=64, help="MiB of a worker for the plate")
    options = parser.parse_args()
    ray.init(
        num_cpus=options.workers,
        include_dashboard=False,
        object_store_memory=128 * MIB,
        log_to_driver=False,
        logging_level="warning",
    )
    with tempfile.TemporaryDirectory() as name:
        folder, limit = Path(name), options.limit * MIB
        make_plate(folder, options.wells, options.size)
        total, trace, done, peaks = on_ray(folder, options.wells, limit)
        wrong = differences(folder, options.wells, total)
    ray.shutdown()
    print(trace)
    print(f"wells of {len(done)} workers: {sorted(done.values())}; calls: {len(trace.spans)}")
    nbytes = options.wells * IMAGES_IN_WELL * options.size**2 * 2
    print(
        f"the plate has {nbytes // MIB} MiB; the most in each worker: "
        f"{', '.join(str(peak // MIB) for peak in peaks.values())} MiB"
    )
    if max(peaks.values()) > limit:
        wrong.append(f"more than {options.limit} MiB in memory")
    print(f"WRONG: {', '.join(wrong)}" if wrong else "the results equal those of one process")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
