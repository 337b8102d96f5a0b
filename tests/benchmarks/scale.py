"""Processor time of work at scale, ours over the best by hand, on one thread.

    python tests/benchmarks/scale.py

The best of several batches counts, without Python's garbage collector.
"""

import gc
import time

import arraybridge as ab
import jax
import numpy as np
import optree
import pandas as pd
import torch

SOURCES = ("uint8", "int16", "int32", "int64", "uint64", "float32", "float64")
TARGETS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def spent(call, batches=5, calls=5):
    call()
    times = []
    for _ in range(batches):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
    return min(times)


def row(name, ours, by_hand):
    a, b = spent(ours), spent(by_hand)
    print(f"| {name} | {a * 1e6:,.1f} us | {b * 1e6:,.1f} us | {a / b:.2f} |", flush=True)


def casts():
    for source in SOURCES:
        x = np.random.default_rng(0).integers(0, 100, (1000, 1000)).astype(source)
        t = torch.from_numpy(x)
        for target in TARGETS:
            ours = lambda: ab.convert(x, "torch", dtype=target)  # noqa: B023, E731
            row(f"{source} to {target}", ours, lambda: t.to(getattr(torch, target)))  # noqa: B023


def tiles(image, length, halo):
    declared = ab.numpy(lambda tile: tile + 1, tiles=(length, length), halo=halo)

    def by_hand():
        out, starts = np.empty_like(image), range(0, len(image), length)
        for i in starts:
            for j in starts:
                a, b = max(0, i - halo), max(0, j - halo)
                read = image[a : i + length + halo, b : j + length + halo]
                done = (read.copy() if halo else read) + 1
                out[i : i + length, j : j + length] = done[i - a :, j - b :][:length, :length]
        return out

    row(f"tiles of {length}, halo {halo}", lambda: declared(image), by_hand)


def slices(stack):
    declared = ab.numpy(lambda image: image * 1.0, slice_by_slice=True)

    def by_hand():
        out = np.empty_like(stack)
        for into, image in zip(out, stack, strict=True):
            into[...] = np.rint(np.clip(image * 1.0, 0, 255)).astype("uint8")
        return out

    row("slices of dark uint8 images", lambda: declared(stack), by_hand)


def main():
    torch.set_num_threads(1)
    gc.disable()
    print("| work | ours | by hand | ratio |\n| --- | --- | --- | --- |")
    table = pd.DataFrame({str(i): np.ones(1000, "f4") for i in range(100)})
    row(
        "data frame of 100 float32 columns",
        lambda: ab.convert(table, "torch"),
        lambda: torch.from_numpy(np.asarray(table)),
    )
    casts()
    slices(np.random.default_rng(0).integers(0, 3, (64, 256, 256)).astype("uint8"))
    for length, halo in ((64, 0), (64, 8), (512, 0), (512, 8)):
        tiles(np.ones((2048, 2048), "f4"), length, halo)
    tensors, nothing = [torch.ones(8) for _ in range(51)], lambda *arrays: None
    for framework in (ab.jax, ab.torch):
        recorded, plain = framework(nothing, differentiable=True), framework(nothing)
        name = f"differentiable @{framework.__name__}, 51 tensors; not declared so"
        row(name, lambda: recorded(*tensors), lambda: plain(*tensors))  # noqa: B023
    rows = list(np.ones((10_000, 4), "f4"))
    dicts = [{"a": a, "b": b} for a, b in zip(rows[:500], rows[500:1000], strict=True)]
    for name, tree in (("dicts of two", dicts), ("lists of one", [[r] for r in rows[:1000]])):
        for by_hand in (optree.tree_map, jax.tree.map):
            row(
                f"convert_tree, {name}; {by_hand.__module__.partition('.')[0]}",
                lambda: ab.convert_tree(tree, "torch"),  # noqa: B023
                lambda: by_hand(torch.from_numpy, tree),  # noqa: B023
            )
    declared, numbers, both = ab.torch(nothing), list(range(100_000)), rows + rows
    row("list of 100,000 numbers; sum of it", lambda: declared(numbers), lambda: sum(numbers))
    for name, given in (("10,000 arrays", rows), ("20,000, each array twice", both)):
        row(
            f"list of {name}; from_numpy of each",
            lambda: declared(given),  # noqa: B023
            lambda: [torch.from_numpy(array) for array in given],  # noqa: B023
        )


if __name__ == "__main__":
    main()
