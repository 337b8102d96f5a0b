"""Compare the calls of two threads with those of one, on a free-threaded CPython.

    python tests/benchmarks/threads.py

For each function, windows with one and with two threads follow each other, and the table has the
median of their ratios: on a machine that is busy with other work, times vary more than ratios. A
declared function that is made inside another one is counted, so its callers wait for each other.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import arraybridge as ab
import numpy as np

ROUNDS, WINDOW, CALLS = 100, 0.01, 20


def same(image):
    return image


def added(image):
    return image + 1


declared_same, declared_added = ab.numpy(same), ab.numpy(added)


def nested():
    @ab.numpy
    def inner(image):
        return image

    return inner


FUNCTIONS = {
    "returns its argument": same,
    "returns its argument, declared": declared_same,
    "returns its argument, nested": nested(),
    "adds 1 by NumPy": added,
    "adds 1 by NumPy, declared": declared_added,
}


def rate(function, image) -> float:
    """Calls per second."""
    calls, start = 0, time.perf_counter()
    while (now := time.perf_counter()) < start + WINDOW:
        for _ in range(CALLS):
            function(image)
        calls += CALLS
    return calls / (now - start)


def main() -> None:
    rates: dict[tuple[str, int, int, int], float] = {}
    barrier = threading.Barrier(2)

    def work(number: int) -> None:
        image = np.ones((8, 8), "float32")
        for turn in range(ROUNDS):
            for name, function in FUNCTIONS.items():
                for threads in (1, 2):
                    barrier.wait()
                    if number < threads:
                        rates[name, threads, turn, number] = rate(function, image)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    state = "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off"
    print(f"CPython {sys.version.split()[0]}, GIL {state}: two threads / one thread")
    for name in FUNCTIONS:
        alone = [rates[name, 1, turn, 0] for turn in range(ROUNDS)]
        both = [rates[name, 2, turn, 0] + rates[name, 2, turn, 1] for turn in range(ROUNDS)]
        ratio = statistics.median(two / one for one, two in zip(alone, both, strict=True))
        print(f"{name:34} {ratio:.2f}  ({1e6 / statistics.median(alone):.2f} us alone)")


if __name__ == "__main__":
    main()
