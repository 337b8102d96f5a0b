"""Use the package from many threads for a long time; check values, memory and descriptors.

python tests/soak/soak.py --seconds 600 --threads 16

Every thread goes through the same work in an order of its own: conversions between all frameworks,
detection, declared functions, results that another thread drops, errors, interrupts, and traces. It
fails if a value is wrong, an unexpected error is raised or an interrupt is lost, and if memory or
descriptors keep growing.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import queue
import random
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import bridges  # noqa: E402
import numpy as np  # noqa: E402

bridges.load()
import arraybridge as ab  # noqa: E402

# What the caches of all allocators may add after the first fifth of the time.
GROWTH_BYTES = 200 << 20
GROWTH_DESCRIPTORS = 16
SHAPES = ((3, 5), (64, 64), (2, 96, 64), (1,), (257, 33))
DTYPES = ("uint8", "uint16", "int32", "float32")


class Work:
    """What one thread does."""

    def __init__(self, number: int, dropped: queue.SimpleQueue) -> None:
        self.random = random.Random(number)
        self.dropped = dropped
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """One piece of work, at random."""
        task = self.random.choice(TASKS)
        task(self)
        self.done[task.__name__] += 1

    def image(self) -> np.ndarray:
        shape, dtype = self.random.choice(SHAPES), self.random.choice(DTYPES)
        start = self.random.randrange(100)
        return (np.arange(start, start + int(np.prod(shape))) % 120).reshape(shape).astype(dtype)

    def framework(self) -> str:
        return self.random.choice(bridges.INSTALLED)


def check(framework: str, x, expected: np.ndarray) -> None:
    problem = bridges.difference(framework, x, expected)
    if problem:
        raise AssertionError(f"{framework}: {problem}")


def conversion(work: Work) -> None:
    source, target, image = work.framework(), work.framework(), work.image()
    made = ab.convert(bridges.make(source, image), target, copy=work.random.choice((None, True)))
    check(target, made, image)
    work.dropped.put(made)


def chain(work: Work) -> None:
    image = work.image()
    x = image
    for _ in range(4):
        target = work.framework()
        x = ab.convert(x, target)
        check(target, x, image)


def view(work: Work) -> None:
    image = work.image()
    cut = image[::-1] if work.random.random() < 0.5 else image.T
    expected, target = np.array(cut), work.framework()
    made = ab.convert(cut, target)
    del cut, image
    check(target, made, expected)


def detection(work: Work) -> None:
    framework = work.framework()
    assert ab.detect_memory_type(bridges.make(framework, work.image())) == framework


def refusal(work: Work) -> None:
    for bad in (np.array(["a"]), np.ma.masked_array([1.0], [True])):
        try:
            ab.convert(bad, "torch")
        except ab.MemoryConversionError:
            continue
        raise AssertionError(f"{bad!r} was converted")


def tensor(work: Work) -> None:
    image = work.image()
    made = ab.Tensor(image)
    assert (np.from_dlpack(made) == image).all()
    work.dropped.put(made)


DECLARED: dict[str, Callable] = {}


def declared(work: Work) -> None:
    framework, source, image = work.framework(), work.framework(), work.image()
    function = DECLARED[framework]
    check(source, function(bridges.make(source, image)), image)


def traced(work: Work) -> None:
    image, target = work.image(), work.framework()
    with ab.trace() as records:
        made = ab.convert(bridges.make("numpy", image), target)
    assert len(records) == 1 and records[0].target == target, list(records)
    check(target, made, image)


def policy(work: Work) -> None:
    image = work.image().astype(work.random.choice(("uint8", "int16", "uint16")))
    rounded = ab.finish_dtype(image.astype("float64") + 0.25, image)
    check("numpy", rounded, image)


def slices(work: Work) -> None:
    stack = np.stack([work.image().reshape(-1)[:1].repeat(12).reshape(3, 4)] * 3)
    framework = work.framework()
    parts = ab.unstack_slices(stack, framework)
    check(framework, ab.stack_slices(parts, framework), stack)


def interrupted(work: Work) -> None:
    """An interrupt comes somewhere in the work, comes out of it, and changes nothing."""
    image, target = work.image(), work.framework()
    thread, error = ctypes.c_ulong(threading.get_ident()), ctypes.py_object(KeyboardInterrupt)
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    deadline, delay, begun = time.monotonic() + 60, work.random.random() / 100, []

    def interrupt() -> None:
        # An interrupt inside of CPython's locks becomes another error.
        while not begun:
            time.sleep(0.0001)
        time.sleep(delay)
        send(thread, error)

    threading.Thread(target=interrupt).start()

    def work_on() -> None:
        begun.append(True)
        while time.monotonic() < deadline:
            DECLARED["numpy"](ab.convert(image, target))

    # CPython 3.13 leaves a `try` by an interrupt at the end of a loop in it.
    try:
        work_on()
    except KeyboardInterrupt:
        check(target, ab.convert(image, target), image)
        return
    raise AssertionError("an interrupt was lost")


TASKS = (
    conversion, chain, view, detection, refusal, tensor, declared, traced, policy, slices,
    interrupted,
)  # fmt: skip


def declare() -> None:
    for framework in bridges.INSTALLED:
        DECLARED[framework] = getattr(ab, framework)(output_type="input")(lambda image: image)


class Soak:
    """The threads, and what is watched."""

    def __init__(self, seconds: float, threads: int) -> None:
        self.seconds, self.failures = seconds, []
        self.dropped: queue.SimpleQueue = queue.SimpleQueue()
        self.end = threading.Event()
        self.works = [Work(number, self.dropped) for number in range(threads)]

    def run(self) -> int:
        declare()
        threads = [threading.Thread(target=self._work, args=[work]) for work in self.works]
        threads.append(threading.Thread(target=self._drop))
        for thread in threads:
            thread.start()
        started = measured()
        deadline = time.monotonic() + self.seconds
        warm = time.monotonic() + self.seconds / 5
        while time.monotonic() < deadline and not self.failures:
            self.end.wait(min(1.0, self.seconds / 20))
            if time.monotonic() < warm:
                started = measured()
        self.end.set()
        for thread in threads:
            thread.join(120)
        return self._report(started, [thread for thread in threads if thread.is_alive()])

    def _work(self, work: Work) -> None:
        try:
            while not self.end.is_set():
                work.step()
        except BaseException:
            self.failures.append(traceback.format_exc())
            self.end.set()

    def _drop(self) -> None:
        """Drop results on a thread that did not make them."""
        while not self.end.is_set() or not self.dropped.empty():
            try:
                self.dropped.get(timeout=0.05)
            except queue.Empty:
                continue

    def _report(self, started: dict[str, int], hanging: list[threading.Thread]) -> int:
        gc.collect()
        now = measured()
        done = sum((work.done for work in self.works), Counter())
        print(f"{sum(done.values())} pieces of work: {dict(done)}")
        print(f"after a fifth of the time: {started}\nat the end: {now}")
        self.failures += [f"{thread.name} hangs" for thread in hanging]
        if now["bytes"] - started["bytes"] > GROWTH_BYTES:
            self.failures.append("memory keeps growing")
        if now["descriptors"] - started["descriptors"] > GROWTH_DESCRIPTORS:
            self.failures.append("descriptors keep growing")
        if len(done) < len(TASKS):
            self.failures.append("some work was never done")
        print("\n".join(self.failures) or "nothing went wrong")
        return bool(self.failures)


def measured() -> dict[str, int]:
    """The resident memory and the open descriptors of this process, where the system says."""
    if not os.path.exists("/proc/self/statm"):
        return {"bytes": 0, "descriptors": 0}
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    return Soak(options.seconds, options.threads).run()


if __name__ == "__main__":
    sys.exit(main())
