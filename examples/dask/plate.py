"""Process a plate of 16-bit images on several processes, and lose one of them on the way.

The plate is read from Zarr and goes back to Zarr. Functions declared for PyTorch, JAX and NumPy run
in `map_overlap`, `map_blocks`, xarray's `apply_ufunc` and `delayed` on a LocalCluster. A worker is
killed when it has written a few images. The results are compared with those of one process, and the
traces of the workers are gathered. The exit status is 1 if a result differs.

Run by `make dask`.
"""

from __future__ import annotations

import argparse
import collections
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arraybridge as ab
import dask
import dask.array as da
import numpy as np
import xarray as xr
from distributed import Client, Future, LocalCluster, WorkerPlugin, progress
from plate_functions import area, blur, bright, fields, without_background

IMAGES_IN_BLOCK = 4
HALO = 2


class Traced(WorkerPlugin):
    """Traces all threads of a worker."""

    name = "arraybridge-trace"

    def setup(self, worker: Any) -> None:
        self.trace = ab.trace(everywhere=True)
        self.trace.__enter__()

    def teardown(self, worker: Any) -> None:
        self.trace.__exit__()


def gathered(client: Client) -> ab.trace:
    """One trace with the records of all workers. Those of a killed worker are lost with it."""

    def of_worker(dask_worker: Any) -> tuple[list[ab.Record], list[ab.Record]]:
        trace = dask_worker.plugins[Traced.name].trace
        return trace.records, trace.spans

    whole = ab.trace()
    for records, spans in client.run(of_worker).values():
        whole.records += records
        whole.spans += spans
    return whole


def plate_of(count: int, size: int) -> da.Array:
    """A plate whose blocks the workers make. A real one comes from a microscope."""
    shape = (IMAGES_IN_BLOCK, size, size)
    blocks = [
        da.from_delayed(dask.delayed(fields)(seed, *shape[:2]), shape, "uint16")
        for seed in range(count // IMAGES_IN_BLOCK)
    ]
    return da.concatenate(blocks)


def steps(images: da.Array) -> tuple[da.Array, da.Array]:
    """The cleaned images and their masks. The declarations say which dtype each step returns."""
    blocks: dict[str, Any] = {"meta": np.empty((0, 0, 0), "uint16")}
    half = -(-images.shape[1] // 2)
    tiles = images.rechunk((IMAGES_IN_BLOCK, half, half))
    # The function mirrors the border of the image. Inside, tiles see their neighbours' pixels.
    blurred = da.map_overlap(blur, tiles, depth={1: HALO, 2: HALO}, boundary="none", **blocks)
    cleaned = blurred.rechunk(images.chunks).map_blocks(without_background, **blocks)
    masks = xr.apply_ufunc(
        bright,
        xr.DataArray(cleaned, dims=("image", "y", "x")),
        dask="parallelized",
        output_dtypes=[bool],
    )
    return cleaned, masks.data


def kill_one(client: Client, written: Path) -> int:
    """Kill a worker when a few blocks are written."""
    while sum(1 for path in written.rglob("c/*/*/*") if path.is_file()) < 3:
        time.sleep(0.01)
    _, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def on_cluster(client: Client, folder: Path, count: int, size: int) -> int:
    """Make the plate, process it, and return the area of all masks."""
    client.register_plugin(Traced())
    plate_of(count, size).to_zarr(folder / "plate.zarr")
    cleaned, masks = steps(da.from_zarr(folder / "plate.zarr"))
    stored = [
        cleaned.to_zarr(folder / "cleaned.zarr", compute=False),
        masks.to_zarr(folder / "masks.zarr", compute=False),
    ]
    areas = [dask.delayed(area)(block) for block in masks.to_delayed().ravel()]
    futures: list[Future] = client.compute([*stored, *areas])
    print(f"killed worker {kill_one(client, folder / 'cleaned.zarr')}")
    if sys.stderr.isatty():
        progress(futures)
    _, _, *found = client.gather(futures)
    return sum(found)


def differences(folder: Path, total: int) -> Iterator[str]:
    """What is not as this process makes it, a block at a time."""
    plate, cleaned, masks = (
        da.from_zarr(folder / f"{name}.zarr") for name in ("plate", "cleaned", "masks")
    )
    known_total = 0
    for start in range(0, len(plate), IMAGES_IN_BLOCK):
        images, found, found_masks = (
            stack[start : start + IMAGES_IN_BLOCK].compute(scheduler="sync")
            for stack in (plate, cleaned, masks)
        )
        known = without_background(blur(images))
        known_masks = bright(known)
        known_total += int(known_masks.sum())
        for name, result, expected in (
            ("images", found, known),
            ("masks", found_masks, known_masks),
        ):
            if result.dtype != expected.dtype or not np.array_equal(result, expected):
                yield f"{name} from {start} on"
    if total != known_total:
        yield "areas"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", help="write a timeline of all workers for Perfetto")
    options = parser.parse_args()
    cluster = LocalCluster(
        n_workers=options.workers,
        threads_per_worker=options.threads,
        dashboard_address=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        with cluster, Client(cluster) as client:
            total = on_cluster(client, Path(folder), options.images, options.size)
            trace = gathered(client)
        wrong = list(differences(Path(folder), total))
    print(trace)
    pids = collections.Counter(record.pid for record in trace.records)
    print(f"records of {len(pids)} workers: {sorted(pids.values())}; calls: {len(trace.spans)}")
    if options.save:
        trace.save(options.save)
    print(f"WRONG: {', '.join(wrong)}" if wrong else "the results equal those of one process")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
