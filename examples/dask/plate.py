"""Process a plate of 16-bit images on several processes, and lose one of them on the way.

Functions declared for PyTorch, JAX and NumPy run in `map_blocks` and `delayed` on a LocalCluster. A
worker is killed after a part of the blocks. The results are compared with those of one process, and
the traces of the workers are gathered. The exit status is 1 if a result differs.

Run by `make dask`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import Any

import arraybridge as ab
import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, progress
from plate_functions import area, blur, bright, fields, without_background

IMAGES_IN_BLOCK = 4


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


def blocks_of(count: int, size: int) -> da.Array:
    """A plate whose blocks the workers make. A real one would come from a file."""
    shape = (IMAGES_IN_BLOCK, size, size)
    blocks = [
        da.from_delayed(dask.delayed(fields)(seed, *shape[:2]), shape, "uint16")
        for seed in range(count // IMAGES_IN_BLOCK)
    ]
    return da.concatenate(blocks)


def steps(images: da.Array) -> tuple[da.Array, da.Array]:
    """The cleaned images and their masks. The declarations say which dtype each step returns."""
    blocks: dict[str, Any] = {"meta": np.empty((0, 0, 0), "uint16")}
    cleaned = images.map_blocks(blur, **blocks).map_blocks(without_background, **blocks)
    return cleaned, cleaned.map_blocks(bright, meta=np.empty((0, 0, 0), bool))


def kill_one(client: Client, cleaned: da.Array) -> int:
    """Kill a worker when it has computed some blocks."""
    while not client.who_has(cleaned) or not any(client.who_has(cleaned).values()):
        time.sleep(0.01)
    _, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", help="write a timeline of all workers for Perfetto")
    options = parser.parse_args()
    images = blocks_of(options.images, options.size)
    # This process, and one block.
    expected = without_background(blur(images.compute(scheduler="sync")))
    expected_masks = bright(expected)
    cluster = LocalCluster(
        options.workers, threads_per_worker=options.threads, dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        client.register_plugin(Traced())
        cleaned, masks = dask.persist(*steps(images))
        print(f"killed worker {kill_one(client, cleaned)}")
        if sys.stderr.isatty():
            progress(cleaned, masks)
        areas = [dask.delayed(area)(block) for block in masks.to_delayed().ravel()]
        results = client.compute([cleaned, masks, *areas], sync=True)
        trace = gathered(client)
    wrong = [
        name
        for name, result, known in (
            ("images", results[0], expected),
            ("masks", results[1], expected_masks),
            ("areas", sum(results[2:]), int(expected_masks.sum())),
        )
        if not np.array_equal(result, known)
    ]
    print(trace)
    print(f"processes: {len({record.pid for record in trace.records})}, calls: {len(trace.spans)}")
    if options.save:
        trace.save(options.save)
    print(f"WRONG: {', '.join(wrong)}" if wrong else "the results equal those of one process")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
