"""Process a plate of 16-bit images on several processes, and lose one of them on the way.

The plate is read from Zarr and goes back to Zarr. Functions declared for PyTorch, JAX and NumPy are
called with Dask arrays, which stay lazy: tiles with a halo become `map_overlap`, slices
`map_blocks`, and labels of xarray are kept. The plate is larger than the memory that all workers
together may use for it. A worker is killed when it has written a few images. The results are
compared with those of one process, which reads and writes the files tile by tile, and the traces of
the workers are gathered. The exit status is 1 if a result differs, or if a process needs more
memory.

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
import zarr
from distributed import Client, Future, LocalCluster, WorkerPlugin, progress
from plate_functions import Memory, area, blur, bright, fields, without_background

IMAGES_IN_BLOCK = 4
MIB = 1 << 20


class Watched(WorkerPlugin):
    """Measures the memory of a worker, and traces all of its threads."""

    name = "arraybridge-watched"

    def __init__(self, size: int) -> None:
        self.size = size

    def setup(self, worker: Any) -> None:
        self.memory = Memory(self.size)
        self.trace = ab.trace(everywhere=True)
        self.trace.__enter__()

    def teardown(self, worker: Any) -> None:
        self.trace.__exit__()


def gathered(client: Client) -> ab.trace:
    """One trace with the records of all workers. Those of a killed worker are lost with it."""

    def of_worker(dask_worker: Any) -> tuple[list[ab.Record], list[ab.Record]]:
        trace = dask_worker.plugins[Watched.name].trace
        return trace.records, trace.spans

    whole = ab.trace()
    for records, spans in client.run(of_worker).values():
        whole.records += records
        whole.spans += spans
    return whole


def peaks(client: Client) -> list[int]:
    """The most bytes that each worker had for the plate."""

    def of_worker(dask_worker: Any) -> int:
        return dask_worker.plugins[Watched.name].memory.peak()

    return list(client.run(of_worker).values())


def plate_of(count: int, size: int) -> da.Array:
    """A plate whose blocks the workers make. A real one comes from a microscope."""
    shape = (IMAGES_IN_BLOCK, size, size)
    blocks = [
        da.from_delayed(dask.delayed(fields)(seed, *shape[:2]), shape, "uint16")
        for seed in range(count // IMAGES_IN_BLOCK)
    ]
    return da.concatenate(blocks)


def steps(images: da.Array) -> tuple[da.Array, da.Array]:
    """The cleaned images and their masks. The declarations say how blocks are made of them."""
    half = -(-images.shape[1] // 2)
    # Blocks see their neighbours' pixels, and the border of an image is mirrored.
    blurred = blur(images.rechunk((IMAGES_IN_BLOCK, half, half)))
    cleaned = without_background(blurred)  # has whole images in its blocks
    labelled = bright(xr.DataArray(cleaned, dims=("image", "y", "x")))
    assert isinstance(labelled, xr.DataArray) and labelled.dims == ("image", "y", "x")
    return cleaned, labelled.data


def kill_one(client: Client, written: Path) -> int:
    """Kill a worker when a few blocks are written."""
    while sum(1 for path in written.rglob("c/*/*/*") if path.is_file()) < 3:
        time.sleep(0.01)
    _, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def on_cluster(client: Client, folder: Path, count: int, size: int) -> int:
    """Make the plate, process it, and return the area of all masks."""
    client.register_plugin(Watched(size))
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
    """What is not as this process makes it, from file to file."""
    plate, cleaned, masks = (
        zarr.open_array(folder / f"{name}.zarr") for name in ("plate", "cleaned", "masks")
    )

    def like(array: Any, name: str) -> Any:
        shape, path = array.shape, folder / f"{name}.zarr"
        # An image is written as a whole.
        return zarr.create_array(path, shape=shape, chunks=(1, *shape[1:]), dtype=array.dtype)

    known = blur(plate, out=like(plate, "blurred"))
    known = without_background(known, out=like(plate, "known"))
    known_masks = bright(known, out=like(masks, "known-masks"))
    for start in range(0, plate.shape[0], IMAGES_IN_BLOCK):
        block = slice(start, start + IMAGES_IN_BLOCK)
        for name, result, expected in (("images", cleaned, known), ("masks", masks, known_masks)):
            if result.dtype != expected.dtype or not np.array_equal(result[block], expected[block]):
                yield f"{name} from {start} on"
    if total != area(known_masks):
        yield "areas"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, default=64, help="MiB of a process for the plate")
    parser.add_argument("--save", help="write a timeline of all workers for Perfetto")
    options = parser.parse_args()
    cluster = LocalCluster(
        n_workers=options.workers, threads_per_worker=options.threads, dashboard_address=None
    )
    limit = options.limit * MIB
    with tempfile.TemporaryDirectory() as folder:
        with cluster, Client(cluster) as client:
            total = on_cluster(client, Path(folder), options.images, options.size)
            trace, used = gathered(client), peaks(client)
        memory = Memory(options.size, limit)
        wrong = list(differences(Path(folder), total))
        used.append(memory.peak())
    print(trace)
    pids = collections.Counter(record.pid for record in trace.records)
    print(f"records of {len(pids)} workers: {sorted(pids.values())}; calls: {len(trace.spans)}")
    if options.save:
        trace.save(options.save)
    print(
        f"the plate has {options.images * options.size**2 * 2 // MIB} MiB; the most in each worker "
        f"and in this process: {', '.join(str(peak // MIB) for peak in used)} MiB"
    )
    if max(used) > limit:
        wrong.append(f"more than {options.limit} MiB in memory")
    print(f"WRONG: {', '.join(wrong)}" if wrong else "the results equal those of one process")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
