"""What a conversion costs more by tables that are loaded than by compiled ones.

Both are measured in child processes. Without the shortcut `compiled`, one of them reads the tables
of the wheel as it reads those that a program loads. A child answers each line, a number of calls
and a pair, with the nanoseconds of one call.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import arraybridge as ab
import bridges
from measure import Call, Case, Target, batch
from pairs import SMALL, equal

HERE = Path(__file__).parent
# Calls of OpenCL differ by more than a microsecond.
FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow")
CHILD = f"import bridges; bridges.load{FRAMEWORKS}; import loaded; loaded.answer()"
PATH = [str(HERE), str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
COMPILED, LOADED = "1", "exchange,buffer,import,transfer"


class InChild:
    """A conversion that a child process carries out."""

    def __init__(self, child: subprocess.Popen, pair: str) -> None:
        self.child, self.pair = child, pair

    def __call__(self) -> None:
        self.batch(1)

    def batch(self, number: int) -> float:
        print(number, self.pair, file=self.child.stdin, flush=True)
        return float(self.child.stdout.readline())


@contextlib.contextmanager
def child(shortcuts: str) -> Iterator[subprocess.Popen]:
    environment = {"ARRAYBRIDGE_FAST": shortcuts, "PYTHONPATH": os.pathsep.join(PATH)}
    pipe = subprocess.PIPE
    command, environment = [sys.executable, "-c", CHILD], {**os.environ, **environment}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.stdin.close()


def loaded() -> Iterator[Case]:
    with child(LOADED) as ours, child(COMPILED) as compiled:
        for pair in map(" -> ".join, itertools.permutations(FRAMEWORKS, 2)):
            hands = {"compiled": InChild(compiled, pair)}
            most = Target(150, "added")
            yield Case(pair, InChild(ours, pair), hands, target=most, of_batches=min)


def conversions() -> Iterator[tuple[str, Call]]:
    """Every conversion between two frameworks, after its result was checked."""
    arrays = {name: bridges.make(name, SMALL) for name in FRAMEWORKS}
    for source, target in itertools.permutations(FRAMEWORKS, 2):

        def call(x: object = arrays[source], target: str = target) -> object:
            return ab.convert(x, target)

        equal(target, SMALL)(call())
        yield f"{source} -> {target}", call


def answer() -> None:
    calls = dict(conversions())
    for line in sys.stdin:
        number, pair = line.strip().split(" ", 1)
        print(batch(calls[pair], int(number)), flush=True)
