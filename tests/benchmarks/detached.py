"""Measure a Rust function that runs detached: the median of examples/image-filters.

    python tests/benchmarks/detached.py

needs the example built for speed and installed (`maturin build --release -m
examples/image-filters/Cargo.toml`). It prints how many times faster two threads are than one, what
another thread gets done meanwhile, and how long Ctrl-C takes to end a call. The function copies its
image before it lets other threads run (`detach = copy`).
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import image_filters
import numpy as np
import scipy.ndimage

ROUNDS = 15
INTERRUPTED = """
import sys, time
import image_filters, numpy as np
image = np.random.default_rng(0).random((4000, 4000), dtype="float32")
image_filters.median(image[:9, :9])
print("ready", flush=True)
try:
    image_filters.median(image, radius=3)
except KeyboardInterrupt:
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
"""


def images(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(i).random((300, 300), dtype="float32") for i in range(count)]


def seconds(pool: ThreadPoolExecutor, threads: int, given: list[np.ndarray]) -> float:
    """The time in which each thread filters an image of its own."""
    barrier = threading.Barrier(threads)

    def work(image: np.ndarray) -> float:
        barrier.wait()
        start = time.perf_counter()
        image_filters.median(image)
        return time.perf_counter() - start

    return max(pool.map(work, given[:threads]))


def steps_during(call: Callable[[], object]) -> float:
    """The steps that another thread makes in a second while a call runs."""
    stop, steps = threading.Event(), 0

    def count() -> None:
        nonlocal steps
        while not stop.is_set():
            steps += 1

    thread = threading.Thread(target=count)
    start = time.perf_counter()
    thread.start()
    call()
    stop.set()
    thread.join()
    return steps / (time.perf_counter() - start)


def interrupted() -> float:
    """The time from Ctrl-C to the KeyboardInterrupt, in milliseconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.kill(process.pid, signal.SIGINT)
    raised = process.communicate()[0]
    return (int(raised) - sent) / 1e6


def main() -> None:
    given = images(2)
    for image in given:
        expected = scipy.ndimage.median_filter(image, 3, mode="reflect")
        np.testing.assert_array_equal(image_filters.median(image), expected)
    with ThreadPoolExecutor(2) as pool:
        ratios = [2 * seconds(pool, 1, given) / seconds(pool, 2, given) for _ in range(ROUNDS)]
    print(f"two threads / one thread: {statistics.median(ratios):.2f}, best {max(ratios):.2f}")
    beside = lambda: image_filters.median(given[0], radius=2)  # noqa: E731
    pairs = [(steps_during(beside), steps_during(lambda: time.sleep(0.1))) for _ in range(ROUNDS)]
    shares = [meanwhile / alone for meanwhile, alone in pairs]
    print(f"steps of another thread meanwhile / alone: {statistics.median(shares):.2f}")
    times = sorted(interrupted() for _ in range(20))
    print(f"Ctrl-C to KeyboardInterrupt: median {times[10]:.0f} ms, longest {times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
