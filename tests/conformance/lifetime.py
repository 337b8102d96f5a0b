"""Whose memory it is, and how long it stays. Each scenario is a function."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from typing import Any

import bridges
import numpy as np
from subject import Subject

IMAGE = np.arange(4096).reshape(64, 64).astype("float32")
SCENARIOS: dict[str, Callable[..., str | None]] = {}


def scenario(name: str):
    def register(function):
        SCENARIOS[name] = function
        return function

    return register


def run(subject: Subject, case: dict[str, Any]) -> str | None:
    """Why the case is wrong; None if it is right."""
    pair = case["source"], case["target"]
    extra = [case["offset"]] if "offset" in case else []

    def convert(x: Any, source: str = pair[0], target: str = pair[1]) -> Any:
        return subject.convert(x, source, target)

    return SCENARIOS[case["scenario"]](convert, *pair, *extra)


CHANGED = "the source changed"


def churn() -> None:
    """Use memory that was given back, so that whoever still reads it sees it."""
    gc.collect(0)
    for _ in range(8):
        np.full(IMAGE.shape, -1, IMAGE.dtype)
        bridges.make("torch", np.full(IMAGE.shape, -1, IMAGE.dtype))


@scenario("source dropped")
def _source_dropped(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = convert(x)
    del x
    churn()
    return bridges.difference(target, made, IMAGE)


@scenario("result dropped")
def _result_dropped(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = convert(x)
    if problem := bridges.difference(target, made, IMAGE):
        return problem
    del made
    churn()
    return bridges.difference(source, x, IMAGE)


@scenario("there and back")
def _there_and_back(convert, source, target):
    back = convert(convert(bridges.make(source, IMAGE)), target, source)
    churn()
    return bridges.difference(source, back, IMAGE)


@scenario("two results, one dropped")
def _two_results(convert, source, target):
    x = bridges.make(source, IMAGE)
    one, two = convert(x), convert(x)
    del one, x
    churn()
    return bridges.difference(target, two, IMAGE)


@scenario("view of a base that is dropped")
def _view(convert, source, target):
    base = bridges.make(source, IMAGE)
    view = base[3:60:2, 5:]
    del base
    made = convert(view)
    del view
    churn()
    return bridges.difference(target, made, IMAGE[3:60:2, 5:])


@scenario("in another thread")
def _in_a_thread(convert, source, target):
    x: Any = bridges.make(source, IMAGE)
    made = bridges.elsewhere(lambda: convert(x))
    x = None
    churn()
    return bridges.difference(target, made, IMAGE)


@scenario("dropped in another thread")
def _dropped_in_a_thread(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = [convert(x)]
    if problem := bridges.difference(target, made[0], IMAGE):
        return problem
    bridges.elsewhere(made.clear)
    churn()
    return bridges.difference(source, x, IMAGE)


@scenario("a hundred times")
def _many(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = [convert(x) for _ in range(100)]
    for one in made[::9]:
        if problem := bridges.difference(target, one, IMAGE):
            return problem
    return bridges.difference(source, x, IMAGE)


@scenario("source unchanged by writes to a result")
def _writes(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = convert(x)
    if problem := bridges.difference(target, made, IMAGE):
        return problem
    if source in ("jax", "tensorflow"):
        _write(target, made)
    return bridges.difference(source, x, IMAGE) and CHANGED


def _write(framework: str, x: Any) -> bool:
    """Write to an array, if its framework does that."""
    if framework not in ("numpy", "torch"):
        return False
    try:
        x[0, 0] = 42
    except (ValueError, RuntimeError):
        return False
    return True


@scenario("shares")
def _shares(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = convert(x)
    x[0, 0] = 42
    return None if float(made[0, 0]) == 42 else "the memory is not shared"


@scenario("does not alias by chance")
def _no_chance(convert, source, target):
    for offset in (0, 16, 64):
        x = bridges.aligned(IMAGE, offset)
        made = convert(x)
        x[...] = 0
        if problem := bridges.difference(target, made, IMAGE):
            return problem
    return None


@scenario("read-only stays unwritten")
def _read_only(convert, source, target):
    x = bridges.frozen(IMAGE)
    made = convert(x)
    if problem := bridges.difference(target, made, IMAGE):
        return problem
    _write(target, made)
    return bridges.difference("numpy", x, IMAGE)


@scenario("read-only memory map")
def _memory_map(convert, source, target):
    with tempfile.NamedTemporaryFile() as file:
        file.write(IMAGE.tobytes())
        file.flush()
        x = np.memmap(file.name, IMAGE.dtype, "r", shape=IMAGE.shape)
        _write(target, convert(x))
        return bridges.difference("numpy", x, IMAGE)


@scenario("constant stays constant")
def _constant(convert, source, target):
    import tensorflow as tf

    made = convert(tf.constant(7.25))
    try:
        made[...] = 5
    except (ValueError, RuntimeError):
        return None
    return None if float(tf.constant(7.25)) == 7.25 else "a constant of the process changed"


@scenario("operations on the result")
def _operations(convert, source, target, offset):
    x = bridges.aligned(IMAGE, offset)
    if source == "torch":
        import torch

        x = torch.from_numpy(x)
    elif source != "numpy":
        x = bridges.make(source, x)
    made = convert(x)
    return bridges.difference(target, _double(target, made), IMAGE * 2)


def _double(framework: str, x: Any) -> Any:
    if framework == "pyclesperanto":
        import pyclesperanto as cle

        return cle.multiply_image_and_scalar(x, scalar=2)
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.add(x, x) if tf.reduce_sum(x) else x
    return x + x


@scenario("resized under the result")
def _resized(convert, source, target):
    x = bridges.make(source, IMAGE)
    made = convert(x)
    try:
        x.untyped_storage().resize_(0)
    except RuntimeError:
        return bridges.difference(target, made, IMAGE)
    # The storage could be resized: then the result may not use its memory.
    churn()
    return bridges.difference(target, made, IMAGE)
