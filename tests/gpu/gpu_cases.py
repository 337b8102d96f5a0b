"""The benchmark's GPU cases: every pair of frameworks on a device, uploads and downloads.

Each is compared with the fastest correct call by hand (`tests/benchmarks/measure.py`). Calls wait
until the result is there if the image is large, so that the time is that of the copy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import permutations, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import arraybridge as ab  # noqa: E402
import numpy as np  # noqa: E402
from arraybridge._tools import arrays  # noqa: E402
from measure import Call, Case, measure  # noqa: E402

GPU = "accelerator:0"
SIZES = {"small": (16, 16), "large": (4096, 4096)}
Maker = Callable[[Any], Any]


def _tensorflow_device(function: Maker) -> Maker:
    def call(x: Any) -> Any:
        with importlib.import_module("tensorflow").device("GPU:0"):
            return function(x)

    return call


def by_hand(source: str, target: str) -> dict[str, Maker]:
    """Calls that an expert would write. `numpy` stands for the host."""
    names = {source, target} - {"numpy"}
    module = {name: importlib.import_module(name) for name in names}
    if source == "numpy":
        return {
            "cupy": lambda: {"asarray": module["cupy"].asarray},
            "torch": lambda: {"to": lambda x: module["torch"].from_numpy(x).to("cuda")},
            "jax": lambda: {"device_put": lambda x: module["jax"].device_put(x, _jax_gpu())},
            "tensorflow": lambda: {"constant": _tensorflow_device(module["tensorflow"].constant)},
        }[target]()
    if target == "numpy":
        return {"download": lambda x: arrays.read(source, x)}
    if target == "tensorflow":
        take = module["tensorflow"].experimental.dlpack.from_dlpack
        return {"dlpack": lambda x: take(x.__dlpack__())}
    take = module["jax"].dlpack.from_dlpack if target == "jax" else module[target].from_dlpack
    if source == "tensorflow":
        give = module["tensorflow"].experimental.dlpack.to_dlpack
        return {"dlpack": lambda x: take(x), "capsule": lambda x: take(give(x))}
    return {"dlpack": take}


def _jax_gpu() -> Any:
    return importlib.import_module("jax").local_devices(backend="gpu")[0]


def case(source: str, target: str, image: np.ndarray, large: bool) -> Case:
    """The comparison of one pair."""
    x = arrays.make(source, image, "host" if source == "numpy" else GPU)
    device = None if target == "numpy" else GPU

    def complete(call: Maker) -> Call:
        if not large:
            return lambda: call(x)

        def wait() -> Any:
            result = call(x)
            arrays.finish(target, result)
            return result

        return wait

    def check(result: Any) -> None:
        assert (arrays.read(target, result) == image).all()

    hands = {name: complete(call) for name, call in by_hand(source, target).items()}
    ours = complete(lambda x: ab.convert(x, target, device=device))
    return Case(f"{source} -> {target}", ours, hands, check)


def pairs() -> list[tuple[str, str]]:
    """The pairs of the frameworks that have a GPU here. At least one end is on it."""
    found = ["numpy"]
    for name in ("cupy", "torch", "jax", "tensorflow"):
        try:
            found += [name] if GPU in arrays.places(name) else []
        except Exception as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return list(permutations(found, 2))


def outcome(size: str, source: str, target: str, rounds: int) -> dict[str, Any]:
    """What was measured for a pair, or the error of the step that failed."""
    image = np.arange(np.prod(SIZES[size]), dtype="float32").reshape(SIZES[size])
    try:
        return asdict(measure(size, case(source, target, image, size == "large"), rounds))
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        return {"group": size, "name": f"{source} -> {target}", "error": words}


def main() -> None:
    """Measure, and write the outcomes as JSON. A pair that fails is an outcome too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    found = pairs()
    outcomes: list[dict[str, Any]] = []
    options.out.write_text("[]")
    for size, pair in product(SIZES, found):
        outcomes.append(outcome(size, *pair, options.rounds))
        # What is there is kept if a pair ends the process.
        options.out.write_text(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main()
