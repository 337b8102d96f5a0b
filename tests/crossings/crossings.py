"""Run crossings: `python tests/crossings/crossings.py --help`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import page  # noqa: E402
import program  # noqa: E402
from cover import Cover, Row, matches  # noqa: E402

TIMEOUT = 240.0
Verdict = dict[str, str]


class Worker:
    """A process that judges one row after the other, and is started again after a crash."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def judge(self, row: Row, text: str | None = None) -> Verdict:
        if self.process is None:
            flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "worker.py")],
                env={**os.environ, "XLA_FLAGS": flags.strip(), "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            if not self._answer(None, 1200):
                raise RuntimeError("a worker did not start: python tests/crossings/worker.py")
        if answer := self._answer(json.dumps([row, text]), TIMEOUT):
            return json.loads(answer)
        code = self.process.wait()
        self.process = None
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        return {"kind": "crashed", "about": name, "text": f"the process ended: {name}"}

    def _answer(self, line: str | None, timeout: float) -> str:
        process = self.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        try:
            if line is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            timer.cancel()


class Workers:
    """A few processes that judge rows."""

    def __init__(self, count: int = 2) -> None:
        self.free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self.all = [Worker() for _ in range(count)]
        for worker in self.all:
            self.free.put(worker)
        self.threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown()
        for worker in self.all:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait()

    def judge(self, row: Row, text: str | None = None) -> Verdict:
        """Judge a row, or another program for it.

        What is refused is right where a rule says so, and wrong anywhere else.
        """
        worker = self.free.get()
        try:
            verdict = worker.judge(row, text)
        finally:
            self.free.put(worker)
        rules = [rule for when, rule in REFUSED if matches(when, row)]
        if verdict["kind"] in ("refused", "raised"):
            if any(re.search(rule["says"], verdict["text"]) for rule in rules):
                return {"kind": "right", "about": "refused", "text": verdict["text"]}
        elif verdict["kind"] != "crashed" and not all(rule.get("sometimes") for rule in rules):
            return {
                "kind": "accepted",
                "about": "",
                "text": "it is not refused: " + verdict["text"],
            }
        return verdict

    def map(self, rows: Iterable[Row]) -> list[tuple[Row, Verdict]]:
        rows = list(rows)
        return list(zip(rows, self.threads.map(self.judge, rows), strict=True))

    def reduced(self, row: Row, verdict: Verdict) -> tuple[Row, Verdict]:
        """Return the row with as many plain values as possible that fails in the same way."""
        size = len(row)
        while size:
            changed = False
            names = [name for name in row if row[name] != program.PLAIN[name]]
            for start in range(0, len(names), size):
                plain = {name: program.PLAIN[name] for name in names[start : start + size]}
                trial = {**row, **plain}
                if len(plain) == len(names) or not is_allowed(trial):
                    continue
                found = self.judge(trial)
                if is_alike(found, verdict):
                    row, verdict, changed = trial, found, True
            if size == 1 and not changed:
                break
            size = max(size // 2, 1)
        return row, verdict


def is_alike(one: Verdict, other: Verdict) -> bool:
    return (one["kind"], one["about"]) == (other["kind"], other["about"])


NEVER = [*(rule["when"] for rule in program.RULES["never"]), *program.lacking()]
REFUSED = [(when, rule) for rule in program.RULES["refused"] for when in rule["when"]]
KNOWN = tomllib.loads((HERE / "known.toml").read_text())["known"]
AVOIDED = [
    *NEVER,
    *(when for when, rule in REFUSED if not rule.get("sometimes")),
    *(known["row"] for known in KNOWN),
]


def is_allowed(row: Row) -> bool:
    """Whether a row has only values that make sense together, and that are not refused together."""
    return not any(matches(when, row) for when in AVOIDED)


def covering(strength: int = 2, slow: bool = False) -> list[Row]:
    """Return the rows that have all combinations which nothing refuses, and no known failure.

    Each value is also tried alone: another one of a row of pairs may hide what is wrong with it.
    """
    left_out = () if slow else program.SLOW
    dimensions = {
        name: [value for value in values if (name, value) not in left_out]
        for name, values in program.DIMENSIONS.items()
    }
    rows = Cover(dimensions, AVOIDED, strength).rows()
    return [*alone(), *rows] if strength == 2 else rows


def alone() -> Iterator[Row]:
    """Yield a row for each value, with plain ones otherwise, as far as possible."""
    for name, values in program.DIMENSIONS.items():
        for value in values:
            if (name, value) not in program.SLOW:
                cover = Cover({**program.DIMENSIONS, name: [value]}, AVOIDED, 1)
                if row := cover.nearest({**program.PLAIN, name: value}):
                    yield row


def refused() -> Iterator[Row]:
    """Yield a row for each combination of values that a rule says is refused."""
    found = (nearest(when) for when, rule in REFUSED if not rule.get("sometimes"))
    return itertools.chain.from_iterable(found)


def known_rows() -> Iterator[Row]:
    """Yield the rows of the failures that are known."""
    for known in KNOWN:
        values = {n: [v] if isinstance(v, str) else v for n, v in known["row"].items()}
        # Each value once, and not each combination.
        for i in range(max(map(len, values.values()))):
            yield from nearest({n: several[i % len(several)] for n, several in values.items()})


def nearest(when: dict[str, Any]) -> Iterator[Row]:
    """Yield a row with each combination of values, and otherwise plain ones, as far as possible."""
    for values in itertools.product(*(program.DIMENSIONS[name] for name in when)):
        chosen = dict(zip(when, values, strict=True))
        if matches(when, chosen):
            fixed = {name: [value] for name, value in chosen.items()}
            cover = Cover({**program.DIMENSIONS, **fixed}, NEVER, 1)
            if row := cover.nearest({**program.PLAIN, **chosen}):
                yield row


def short(row: Row) -> dict[str, str]:
    """Return the values of a row that are not plain."""
    return {name: value for name, value in row.items() if value != program.PLAIN[name]}


def failures(
    workers: Workers, judged: Iterable[tuple[Row, Verdict]]
) -> Iterator[tuple[Row, Verdict]]:
    """Yield reduced rows that fail, without those that have the values of another one of these."""
    found: list[tuple[Row, Verdict]] = []
    wrong = [(row, verdict) for row, verdict in judged if verdict["kind"] != "right"]
    for row, verdict in sorted(wrong, key=lambda each: len(short(each[0]))):
        known = (small for small, other in found if is_alike(other, verdict))
        if not any(short(small).items() <= row.items() for small in known):
            found.append(workers.reduced(row, verdict))
            yield found[-1]


def report(found: Iterable[tuple[Row, Verdict]]) -> str:
    """Return the failures, each with a program that shows it."""
    return "\n\n".join(
        f"# {verdict['kind']}, {verdict['about']}: {json.dumps(short(row))}\n"
        f"{program.program(row)}\n# {verdict['text'][-900:]}"
        for row, verdict in found
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the table in docs/conformance.md"
    )
    parser.add_argument("--triples", action="store_true", help="cover triples, not pairs")
    parser.add_argument("--slow", action="store_true", help="with the values that are slow")
    parser.add_argument("--row", help="judge one row, which is JSON")
    parser.add_argument("--refused", action="store_true", help="judge what has to be refused")
    parser.add_argument("--known", action="store_true", help="judge the failures that are known")
    parser.add_argument("--fast", action="store_true", help="do not reduce what fails")
    given = parser.parse_args()
    if given.write:
        page.write()
        return
    with Workers() as workers:
        if given.row is not None:
            row = {**program.PLAIN, **json.loads(given.row)}
            print(report([(row, workers.judge(row))]))
            return
        rows = list(refused()) if given.refused else covering(3 if given.triples else 2, given.slow)
        rows = list(known_rows()) if given.known else rows
        start = time.monotonic()
        judged = workers.map(rows)
        wrong = [(row, verdict) for row, verdict in judged if verdict["kind"] != "right"]
        print(f"{len(wrong)} of {len(rows)} rows, in {time.monotonic() - start:.0f} s", flush=True)
        for each in wrong if given.fast or given.known else failures(workers, judged):
            print("\n" + report([each]), flush=True)
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
