"""Use the same arrays, tensors and declared functions from several threads; check every value.

python tests/soak/shared.py --seconds 60 --threads 8

The program is meant for a free-threaded CPython, and says whether the GIL is off. `soak.py` gives
each thread arrays of its own; here all threads share them, and one dict changes all the time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import arraybridge as ab
import jax
import numpy as np
import torch

IMAGE = np.arange(64 * 64, dtype="float32").reshape(64, 64)
BYTES = (IMAGE % 200).astype("uint8")
STACK = np.stack([BYTES] * 6)
ARRAYS = [IMAGE, torch.tensor(IMAGE), jax.numpy.asarray(IMAGE), ab.Tensor(IMAGE.copy())]
CHANGING = {"image": IMAGE, "others": ARRAYS[1:3]}

doubled = ab.numpy(lambda image: image * 2)
halved = ab.torch(lambda image: image.float() * 0.5, dtype_conversion="native")
in_dict = ab.torch(lambda image: {"sum": image + 1, "same": [image]})
of_dict = ab.numpy(lambda tree: tree["image"] + 1)


@ab.numpy
def steps(image):
    for number in range(3):
        yield image + number


def same(found, expected) -> None:
    assert np.array_equal(np.asarray(found), expected), (found, expected)


def converts(chosen: random.Random) -> None:
    x, target = chosen.choice(ARRAYS), chosen.choice(("numpy", "torch", "jax"))
    same(ab.convert(x, target, copy=chosen.choice((None, True))), IMAGE)


def calls(chosen: random.Random) -> None:
    x = chosen.choice(ARRAYS)
    same(doubled(x), IMAGE * 2)
    same(halved(BYTES), BYTES * 0.5)
    same(in_dict(x)["sum"], IMAGE + 1)


def generates(chosen: random.Random) -> None:
    for number, found in enumerate(steps(chosen.choice(ARRAYS))):
        same(found, IMAGE + number)


def slices(chosen: random.Random) -> None:
    function = chosen.choice((doubled, halved))
    found = function(STACK, slice_by_slice=True)
    same(found, STACK * 2 if function is doubled else STACK * 0.5)


def exports(chosen: random.Random) -> None:
    same(torch.from_dlpack(ARRAYS[3]), IMAGE)
    assert ab.explain(BYTES, "torch").route == "share"
    assert ab.detect_memory_type(chosen.choice(ARRAYS[:3])) in ("numpy", "torch", "jax")


def traces(chosen: random.Random) -> None:
    with ab.trace(everywhere=True) as records:
        ab.convert(chosen.choice(ARRAYS[:3]), "numpy", copy=True)
    assert len(records) >= 1


def trees(chosen: random.Random) -> None:
    """What Python does with a dict that changes while it is read, this package may do, too."""
    name = f"other {chosen.randrange(5)}"
    CHANGING[name] = IMAGE
    CHANGING.pop(name, None)
    try:
        same(ab.convert_tree(CHANGING, "numpy")["others"][0], IMAGE)
        same(of_dict(CHANGING), IMAGE + 1)
    except RuntimeError as error:
        if "changed its size" not in str(error):
            raise


TASKS: tuple[Callable[[random.Random], None], ...] = (
    converts, calls, generates, slices, exports, traces, trees,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wrong: list[str] = []
    end = time.monotonic() + options.seconds

    def work(seed: int) -> Counter[str]:
        chosen, mine = random.Random(seed), Counter()
        try:
            while time.monotonic() < end and not wrong:
                task = chosen.choice(TASKS)
                task(chosen)
                mine[task.__name__] += 1
        except Exception:
            wrong.append(traceback.format_exc())
        return mine

    with ThreadPoolExecutor(options.threads) as pool:
        done = sum(pool.map(work, range(options.threads)), Counter())
    state = "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off"
    print(f"GIL {state}, {done.total()} pieces of work: {dict(done)}")
    print("\n".join(wrong) or "nothing went wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
