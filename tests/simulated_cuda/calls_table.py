"""The table of CUDA calls in docs/simulated-gpu.md: those of a conversion, beside those of the
frameworks alone.

`make simulated-calls` writes it. A test compares it with what is counted.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import arraybridge as ab
import arrays
import cupy
import jax
import loader
import numpy as np
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulated-gpu.md"
BEGIN = "<!-- calls: written by tests/simulated_cuda/calls_table.py, checked by test_calls.py -->\n"
END = "<!-- /calls -->"
VALUES = np.arange(4096, dtype="float32")
WARM_UP = 5
# Without arraybridge.
OWN: dict[tuple[str, str], Callable] = {
    ("torch", "cupy"): cupy.from_dlpack,
    ("torch", "jax"): jax.dlpack.from_dlpack,
    ("torch", "numpy"): lambda x: x.cpu().numpy(),
    ("cupy", "torch"): torch.from_dlpack,
    ("cupy", "jax"): jax.dlpack.from_dlpack,
    ("cupy", "numpy"): cupy.asnumpy,
    ("jax", "torch"): torch.from_dlpack,
    ("jax", "cupy"): cupy.from_dlpack,
    ("jax", "numpy"): jax.device_get,
    ("numpy", "torch"): lambda x: torch.from_numpy(x).to("cuda:0"),
    ("numpy", "cupy"): cupy.asarray,
    ("numpy", "jax"): lambda x: jax.device_put(x.copy(), arrays.GPUS[0]),
}
# Kinds of calls, by parts of their names. The others ask something, or make a device current.
KINDS = {
    "copies": ("Memcpy", "Memset", "LaunchKernel"),
    "waits": ("Synchronize",),
    "order": ("EventRecord", "WaitEvent", "LaunchHostFunc"),
}


def kind_of(name: str) -> str:
    """What a call is for."""
    for kind, parts in KINDS.items():
        if any(part in name for part in parts):
            return kind
    return "questions"


def by_kind(calls: Counter[str]) -> Counter[str]:
    """The numbers of calls by their kind."""
    kinds: Counter[str] = Counter()
    for name, number in calls.items():
        if not name.startswith("the host"):  # counted as the call that waits, too
            kinds[kind_of(name)] += number
    return kinds


def count(source: str, target: str, convert: Callable) -> Counter[str]:
    """The calls of one conversion by their kind.

    XLA makes some from its own threads, and now and then one fewer, so the most frequent outcome of
    several counts. Questions of its threads vary more, and are left out. In its first conversions
    it makes streams and events, which it keeps.
    """
    outcomes: Counter = Counter()
    for turn in range(WARM_UP + 7):
        x = arrays.make(source if source == "numpy" else f"{source}:0", VALUES)
        loader.finish()
        loader.calls()
        y = convert(x)
        if target == "jax":
            y.block_until_ready()
        own, others = map(by_kind, loader.calls_of_threads())
        kinds = own + Counter({kind: others[kind] for kind in KINDS})
        if turn >= WARM_UP:
            outcomes[tuple(sorted(kinds.items()))] += 1
    return Counter(dict(outcomes.most_common(1)[0][0]))


def counts() -> dict[tuple[str, str], tuple[Counter[str], Counter[str]]]:
    """The calls of each pair: ours, and those of the frameworks alone."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (source, target), own in OWN.items():
            options = {"device": "cuda:0"} if source == "numpy" else {}

            def ours(x, target=target, options=options):
                return ab.convert(x, target, **options)

            found[source, target] = count(source, target, ours), count(source, target, own)
    return found


def table(found: dict[tuple[str, str], tuple[Counter[str], Counter[str]]]) -> str:
    """The table in Markdown."""
    kinds = [*KINDS, "questions"]
    lines = ["| | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
    for (source, target), (ours, own) in found.items():
        cells = [f"{ours[kind]} / {own[kind]}" for kind in kinds]
        if "jax" in (source, target):  # it depends on what the process did before
            cells[-1] = ""
        lines.append(f"| {source} -> {target} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(page: str, found) -> str:
    """The page with the table."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table(found) + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    text = with_table(PAGE.read_text(), counts())
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        print(text[text.index(BEGIN) : text.index(END)])
