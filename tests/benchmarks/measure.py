"""Measure a case of the benchmark: its calls take turns in batches.

The result is the median and the quartiles of the ratio of neighbouring batches, because absolute
times do not repeat on a shared machine.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

Call = Callable[[], object]
BATCH_NS = 3e6


@dataclass
class Target:
    """An upper limit: a ratio to the call by hand or to the original, or added nanoseconds."""

    most: float
    of: str = "hand"


@dataclass
class Case:
    """One comparison."""

    name: str
    ours: Call
    hands: dict[str, Call]
    check: Callable[[object], None] = lambda result: None
    # The first is the floor. Others are reported beside it.
    floors: dict[str, Call] = field(default_factory=dict)
    # Makes the call of the original package from its module.
    original: Callable[[ModuleType], Call] | None = None
    target: Target | None = None
    note: str = ""
    # The time of many batches: their median, or the least, which a busy machine disturbs less.
    of_batches: Callable[[list[float]], float] = statistics.median


@dataclass
class Outcome:
    group: str
    name: str
    ours_ns: float
    hand_ns: float
    hand: str
    ratio: float
    quartiles: tuple[float, float]
    floors: list[dict[str, object]]
    target: Target | None
    note: str
    rounds: int
    original_ns: float | None = None
    original_note: str = ""
    peak_mib: float | None = None


def batch(call: Call, number: int) -> float:
    """The nanoseconds of one call. One in another process has a `batch` of its own."""
    if hasattr(call, "batch"):
        return call.batch(number)
    start = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - start) / number


def median_ns(call: Call, batches: int) -> float:
    """The time of a call that does not take turns."""
    number = max(1, int(BATCH_NS / max(batch(call, 2), 1)))
    return statistics.median(batch(call, number) for _ in range(batches))


def right(case: Case, calls: dict[str, Call]) -> dict[str, Call]:
    """The calls whose results are right."""
    found = {}
    for name, call in calls.items():
        try:
            case.check(call())
            found[name] = call
        except Exception as error:
            print(f"  {case.name}: {name} left out, its result is wrong ({error})", file=sys.stderr)
    return found


def measure(group: str, case: Case, rounds: int) -> Outcome:
    """Check every result, keep the fastest call by hand, and let the calls take turns."""
    case.check(case.ours())
    hands, floors = right(case, case.hands), right(case, case.floors)
    gc.collect()
    number = max(1, int(BATCH_NS / max(batch(case.ours, 3), 1)))
    best = min(
        hands, key=lambda name: statistics.median(batch(hands[name], number) for _ in range(3))
    )
    calls = [hands[best], case.ours, *floors.values()]
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds):
        # The order alternates, so that a drift of the machine favours none.
        order = list(zip(calls, times, strict=True))
        for call, found in order if turn % 2 else reversed(order):
            found.append(batch(call, number))
    medians = [case.of_batches(found) for found in times]
    by_hand = times[0]
    ratios = [[a / b for a, b in zip(found, by_hand, strict=True)] for found in times]
    low, middle, high = statistics.quantiles(ratios[1], n=4)
    lowest = [
        {"name": name, "ns": ns, "ratio": statistics.median(ratio)}
        for name, ns, ratio in zip(floors, medians[2:], ratios[2:], strict=True)
    ]
    return Outcome(
        group, case.name, medians[1], medians[0], best, middle, (low, high), lowest,
        case.target, case.note, rounds,
    )  # fmt: skip


def peak_mib(call: Call) -> float | None:
    """The peak growth of the process during a call, as counted by the kernel."""
    try:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS")
        result = call()
        peak = resident("VmHWM")
        del result
        return max(0.0, (peak - before) / 1024)
    except OSError:
        return None


def resident(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise OSError(key)


def import_ms() -> dict[str, float]:
    """Import times in separate processes. Ours is what importing adds after NumPy."""
    code = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter();"
        "import arraybridge; print(1e3 * (b - a), 1e3 * (time.perf_counter() - b))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(15)
    ]
    numpy, ours = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    return {"numpy": statistics.median(numpy), "added": statistics.median(ours)}
