"""Functions that run out of memory, or raise what looks like it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import bridges
import numpy as np
from exhausted import exhaust
from subject import Subject

IMAGE = np.arange(12, dtype="float32").reshape(3, 4)


class OutOfMemoryError(RuntimeError):
    """A class of a user's own, with a framework's name."""


def own_error(framework: str) -> Exception:
    """What the framework's allocator raises."""
    if framework == "numpy":
        return MemoryError("Unable to allocate 909. TiB for an array")
    if framework == "torch":
        import torch

        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
    if framework == "tensorflow":
        import tensorflow as tf

        text = "OOM when allocating tensor with shape[9] and type float on /device:GPU:0"
        return tf.errors.ResourceExhaustedError(None, None, text)
    if framework == "jax":
        import jax

        return jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: Out of memory allocating 1024 bytes."
        )
    return RuntimeError(
        "Error: Failed to allocate buffer memory. OpenCL error: CL_INVALID_BUFFER_SIZE (-61)"
    )


def _other(error: str) -> BaseException:
    return {
        "user's words": RuntimeError("out of memory"),
        "user's class": OutOfMemoryError("out of memory"),
        "value error": ValueError("out of memory"),
        "overflow": OverflowError("array is too big"),
        "interrupt": KeyboardInterrupt(),
        "text in a key": KeyError("RESOURCE_EXHAUSTED"),
        "assertion": AssertionError("CUDA out of memory"),
    }[error]


class Failing:
    """Fails for the first calls, and counts them."""

    def __init__(self, fail: Callable[[], Any], times: int) -> None:
        self.fail, self.times, self.calls = fail, times, 0

    def __call__(self, image: Any) -> Any:
        self.calls += 1
        if self.calls <= self.times:
            self.fail()
        return image


def run(subject: Subject, case: dict[str, Any]) -> str | None:
    """Why the case is wrong; None if it is right."""
    framework, (kind, _, rest) = case["framework"], case["error"].partition(", ")
    declare = subject.decorator(framework)
    options = {"oom_recovery": False} if "switched off" in rest else {}
    error = own_error(framework) if kind == "own" else None
    if kind not in ("own", "real"):
        error = _other(case["error"])
    failing = Failing(_raiser(framework, error), 1 if "once" in rest else 99)
    call = _caller(declare, options, failing, rest)
    raised, result = None, None
    try:
        result = call(bridges.make(framework, IMAGE))
    except BaseException as caught:
        raised = caught
    return _judged(case["expect"], framework, failing, error, raised, result)


def _raiser(framework: str, error: BaseException | None) -> Callable[[], Any]:
    def fail() -> Any:
        if error is None:
            return exhaust(framework)
        raise error

    return fail


def _caller(declare: Any, options: dict[str, Any], failing: Failing, rest: str) -> Any:
    """A declared function that calls `failing`."""
    if "coroutine" in rest:

        async def later(image):
            return failing(image)

        declared = declare(later, **options)
        return lambda image: asyncio.run(declared(image))
    if "method" in rest:

        class Holder:
            @declare(**options)
            def apply(self, image):
                return failing(image)

        return Holder().apply

    def now(image):
        return failing(image)

    return declare(**options)(now)


def _judged(expect, framework, failing, error, raised, result) -> str | None:
    if expect == "retried":
        if raised is not None:
            return f"raised {type(raised).__name__} after {failing.calls} calls"
        return bridges.difference(framework, result, IMAGE)
    if raised is None:
        return "nothing was raised"
    if error is not None and raised is not error:
        return f"raised {type(raised).__name__} instead"
    if expect == "called once" and failing.calls != 1:
        return f"silent: it was called {failing.calls} times"
    return None
