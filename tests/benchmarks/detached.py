"""Measure a Rust function that runs detached: the median of examples/image-filters.

    python tests/benchmarks/detached.py [--figure docs/other-threads.svg]

needs the example built for speed and installed (`maturin build --release -m
examples/image-filters/Cargo.toml`). It prints how many times faster two threads are than one, what
another thread gets done meanwhile, and how long Ctrl-C takes to end a call. The function copies its
image before it lets other threads run (`detach = copy`).
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import image_filters
import numpy as np
import scipy.ndimage

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from figures import GREY, WIDTH, Drawing  # noqa: E402

ROUNDS, LEAD, MARK = 15, 0.03, "#2b6cb0"
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


def moments_beside(call: Callable[[], object]) -> tuple[list[float], float, float]:
    """When another thread runs: times in milliseconds, and the begin and the end of a call."""
    stop, moments = threading.Event(), [time.perf_counter()]

    def note() -> None:
        while not stop.is_set():
            if (now := time.perf_counter()) > moments[-1] + 0.001:
                moments.append(now)

    thread = threading.Thread(target=note)
    thread.start()
    time.sleep(LEAD)
    begin = time.perf_counter()
    call()
    end = time.perf_counter()
    time.sleep(LEAD)
    stop.set()
    thread.join()
    start = moments[0]
    return [1e3 * (t - start) for t in moments], 1e3 * (begin - start), 1e3 * (end - start)


def figure() -> str:
    """Rows of marks, one for each millisecond in which another thread ran, beside three calls."""
    image = np.random.default_rng(0).random((700, 700), dtype="float32")
    calls = {
        "attached: gaussian, sigma=4": lambda: image_filters.gaussian(image, sigma=4),
        "detach = copy: median, radius=1": lambda: image_filters.median(image, radius=1),
        "SciPy: median_filter, 5 x 5": lambda: scipy.ndimage.median_filter(image, 5),
    }
    drawing = Drawing("When another thread runs, during a call of a function")
    for row, (name, call) in enumerate(calls.items()):
        moments, begin, end = moments_beside(call)
        scale, top = (WIDTH - 40) / moments[-1], 20 + 80 * row
        drawing.text(20, top, f"{name} ({end - begin:.0f} ms)")
        drawing.box(20 + scale * begin, top + 8, scale * (end - begin), 40, GREY)
        marks = " ".join(f"M{20 + scale * moment:.1f},{top + 14}v28" for moment in moments)
        drawing.parts.append(f'<path d="{marks}" stroke="{MARK}"/>')
    drawing.text(20, 265, "grey: the call; blue: each millisecond in which the other thread ran")
    return drawing.svg()


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, help="draw when another thread runs")
    if path := parser.parse_args().figure:
        path.write_text(figure())
        return
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
