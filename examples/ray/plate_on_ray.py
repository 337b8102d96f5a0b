"""Process a plate of 16-bit images on Ray's workers, and lose one of them on the way.

The functions are those of the Dask example, declared for PyTorch, JAX and NumPy. Each task takes a
block of images from Zarr, writes its results to Zarr, and returns its records and the area of its
masks. A worker is killed when a few blocks are written; Ray runs its tasks again. The results are
compared with those of one process. The exit status is 1 if a result differs.

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
from plate_functions import area, blur, bright, fields, without_background  # noqa: E402

IMAGES_IN_BLOCK = 4
DTYPES = {"plate": "uint16", "cleaned": "uint16", "masks": "bool"}


def processed(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cleaned images and their masks."""
    cleaned = without_background(blur(images))
    return cleaned, bright(cleaned)


# Without retry_exceptions, Ray only repeats tasks whose worker has died.
@ray.remote(max_retries=3)
def process(folder: str, start: int) -> tuple[int, int, list[ab.Record], list[ab.Record]]:
    """Process one block. Running it again writes the same."""
    plate, cleaned, masks = (zarr.open_array(Path(folder) / name) for name in DTYPES)
    block = slice(start, start + IMAGES_IN_BLOCK)
    trace = ab.trace()
    with trace:
        cleaned[block], masks[block] = found = processed(plate[block])
        total = area(found[1])
    return os.getpid(), total, trace.records, trace.spans


def make_plate(folder: Path, count: int, size: int) -> None:
    """Empty arrays of one chunk for each block, and the images of the plate."""
    for name, dtype in DTYPES.items():
        zarr.create_array(
            folder / name,
            shape=(count, size, size),
            chunks=(IMAGES_IN_BLOCK, size, size),
            dtype=dtype,
        )
    plate = zarr.open_array(folder / "plate")
    for start in range(0, count, IMAGES_IN_BLOCK):
        plate[start : start + IMAGES_IN_BLOCK] = fields(start, IMAGES_IN_BLOCK, size)


def on_ray(folder: Path, count: int) -> tuple[int, ab.trace, collections.Counter[int]]:
    """Process all blocks. Return the area of all masks, one trace, and the blocks by worker."""
    waiting = [process.remote(str(folder), start) for start in range(0, count, IMAGES_IN_BLOCK)]
    total, whole = 0, ab.trace()
    blocks: collections.Counter[int] = collections.Counter()
    while waiting:
        (done,), waiting = ray.wait(waiting)
        pid, found, records, spans = ray.get(done)
        blocks[pid] += 1
        total += found
        whole.records += records
        whole.spans += spans
        show(sum(blocks.values()), count // IMAGES_IN_BLOCK)
        if sum(blocks.values()) == 3:
            os.kill(pid, signal.SIGKILL)
            print(f"killed worker {pid}")
    return total, whole, blocks


def show(done: int, of: int) -> None:
    """A bar on a terminal."""
    if sys.stderr.isatty():
        print(f"\rblocks: {done}/{of}", end="\n" * (done == of), file=sys.stderr, flush=True)


def differences(folder: Path, total: int) -> list[str]:
    """What is not as this process makes it, a block at a time."""
    arrays: dict[str, Any] = {name: zarr.open_array(folder / name) for name in DTYPES}
    wrong, known_total = [], 0
    for start in range(0, arrays["plate"].shape[0], IMAGES_IN_BLOCK):
        block = slice(start, start + IMAGES_IN_BLOCK)
        cleaned, masks = processed(arrays["plate"][block])
        known_total += int(masks.sum())
        for name, known in (("cleaned", cleaned), ("masks", masks)):
            found = arrays[name][block]
            if found.dtype != known.dtype or not np.array_equal(found, known):
                wrong.append(f"{name} from {start} on")
    return wrong if total == known_total else [*wrong, "areas"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    ray.init(
        num_cpus=options.workers,
        include_dashboard=False,
        object_store_memory=128 * 2**20,
        log_to_driver=False,
        logging_level="warning",
    )
    with tempfile.TemporaryDirectory() as folder:
        make_plate(Path(folder), options.images, options.size)
        total, trace, blocks = on_ray(Path(folder), options.images)
        wrong = differences(Path(folder), total)
    ray.shutdown()
    print(trace)
    print(f"blocks of {len(blocks)} workers: {sorted(blocks.values())}; calls: {len(trace.spans)}")
    print(f"WRONG: {', '.join(wrong)}" if wrong else "the results equal those of one process")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
