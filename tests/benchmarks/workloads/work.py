"""One contender of one job, in a process of its own. ``pipelines.py`` starts it.

    python work.py JOB CONTENDER SIZE RESULT [FOLDER OF THE PACKAGE]

Prints one line of JSON: wall and processor time (the medians of the passes that a second has
room for, at least one), the peak of the resident memory and, where ``allocated.c`` is preloaded, of
the allocated, and when the passes began and ended.
"""

from __future__ import annotations

import ctypes
import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "python")]
warnings.simplefilter("ignore")
import bridges  # noqa: E402
import numpy as np  # noqa: E402
from jobs import JOBS, ORIGINAL  # noqa: E402
from measure import resident  # noqa: E402

ENOUGH_S = 1.0


def allocations() -> Callable[[], float | None]:
    """Starts to count; what is returned gives the peak since then, in MiB, if anything counts."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "allocated_begin"):
        return lambda: None
    library.allocated_now.restype = library.allocated_peak.restype = ctypes.c_long
    library.allocated_begin()
    before = library.allocated_now()
    return lambda: (library.allocated_peak() - before) / 2**20


def main(
    name: str, contender: str, size: int, result: str, folder: str = ""
) -> dict[str, float | None]:
    job = JOBS[name]
    bridges.load(*job.needs, "numpy")
    if contender == ORIGINAL:
        sys.path.insert(0, folder)
    import arraybridge

    run = job.contenders[contender]
    run(job.data(job.small), arraybridge)
    data = job.data(size)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    allocated_peak = allocations()
    passes = []
    began = time.perf_counter()
    # A pass of milliseconds says little: pages, caches and the clock of the processor are cold.
    while sum(wall for wall, _ in passes) < ENOUGH_S:
        made = None
        wall, processor = time.perf_counter(), time.process_time()
        with job.scope():
            made = run(data, arraybridge)
        passes.append((time.perf_counter() - wall, time.process_time() - processor))
    ended = time.perf_counter()
    peak = (resident("VmHWM") - before) / 1024
    allocated = allocated_peak()
    np.save(result, np.asarray(made))
    wall, processor = map(statistics.median, zip(*passes, strict=True))
    return {"wall_s": wall, "processor_s": processor, "peak_mib": peak, "allocated_mib": allocated,
            "began_s": began, "ended_s": ended}  # fmt: skip


if __name__ == "__main__":
    name, contender, size, *rest = sys.argv[1:]
    try:
        found = main(name, contender, int(size), *rest)
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    print(json.dumps(found))
