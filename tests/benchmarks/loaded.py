"""What a conversion costs more by tables that are loaded than by compiled ones.

The loaded tables are in a child process: without the shortcut `compiled`, it reads the tables of
the wheel as it reads those that a program loads. It answers each line, a number of calls and a
pair, with the nanoseconds of one call.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import arraybridge as ab
from measure import Call, Case, Target, batch
from pairs import FRAMEWORKS, SMALL, equal, sources

HERE = Path(__file__).parent
CHILD = "import bridges; bridges.load(); import loaded; loaded.answer()"
ENVIRONMENT = {
    "ARRAYBRIDGE_FAST": "exchange,buffer,import,transfer",
    "PYTHONPATH": os.pathsep.join(
        [str(HERE), str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")]
    ),
}


class InChild:
    """A conversion that the child process carries out."""

    def __init__(self, child: subprocess.Popen, pair: str) -> None:
        self.child, self.pair = child, pair

    def __call__(self) -> None:
        self.batch(1)

    def batch(self, number: int) -> float:
        print(number, self.pair, file=self.child.stdin, flush=True)
        return float(self.child.stdout.readline())


def loaded() -> Iterator[Case]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CHILD]
    environment = {**os.environ, **ENVIRONMENT}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as child:
        for pair, call in conversions():
            # Calls of OpenCL differ by more than a microsecond.
            most = None if "pyclesperanto" in pair else Target(150, "added")
            yield Case(pair, InChild(child, pair), {"compiled": call}, target=most)
        child.stdin.close()


def conversions() -> Iterator[tuple[str, Call]]:
    """Every conversion between two frameworks, after its result was checked."""
    arrays = sources(SMALL)
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
