"""A Rust function in compiled programs, beside the other ways to have code of one's own there."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import tensorflow as tf
import torch

CALLS = 100
NAMES = ("arraybridge", "jax-tvm-ffi", "callback by hand", "the framework's own operation")
Ways = dict[str, Callable[[], object]]


def in_jax(ours: Any, tvm_ffi: Any) -> Ways:
    """A loop of `jax.jit`: each call gets what the one before it gave, divided by two again."""
    import jax_tvm_ffi

    image = jax.numpy.ones((16, 16), "float32")
    like = jax.ShapeDtypeStruct(image.shape, image.dtype)
    jax_tvm_ffi.register_ffi_target("authors.doubled", tvm_ffi.double_into, platform="cpu")
    ways = (
        ours.doubled,
        jax.ffi.ffi_call("authors.doubled", like),
        lambda x: jax.pure_callback(lambda x: np.asarray(x) * np.float32(2), like, x),
        lambda x: x * 2,
    )

    def program(double: Callable[[Any], Any]) -> Callable[[], object]:
        step = lambda _, x: double(x) * np.float32(0.5)  # noqa: E731
        call = jax.jit(lambda x: jax.lax.fori_loop(0, CALLS, step, x))
        return lambda: jax.block_until_ready(call(image))

    return dict(zip(NAMES, map(program, ways), strict=True))


def in_torch(ours: Any, _: Any) -> Ways:
    """A graph of `torch.compile`, whose operators are called one by one."""
    image = torch.ones(16, 16)

    @torch.library.custom_op("authors::doubled", mutates_args=())
    def by_hand(image: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(image.numpy() * np.float32(2))

    by_hand.register_fake(torch.empty_like)
    ways = {NAMES[0]: ours.doubled, NAMES[2]: by_hand, NAMES[3]: lambda x: torch.mul(x, 2.0)}

    def program(double: Callable[[Any], Any]) -> Callable[[], object]:
        def loop(x: torch.Tensor) -> torch.Tensor:
            for _ in range(CALLS):
                x = double(x)
            return x

        call = torch.compile(loop, fullgraph=True, backend="aot_eager")
        # The values grow to infinity otherwise.
        zeros = image * 0
        assert torch.equal(torch.compile(double, fullgraph=True)(image), image * 2)
        return lambda: call(zeros)

    with torch.no_grad():
        return {name: program(double) for name, double in ways.items()}


def in_tensorflow(ours: Any, _: Any) -> Ways:
    """A loop of `tf.function`."""
    image = tf.ones((16, 16))

    def by_hand(x: Any) -> Any:
        found = tf.numpy_function(lambda x: x * np.float32(2), [x], tf.float32)
        return tf.ensure_shape(found, x.shape)

    ways = {NAMES[0]: ours.doubled, NAMES[2]: by_hand, NAMES[3]: lambda x: x * 2}

    def program(double: Callable[[Any], Any]) -> Callable[[], object]:
        def loop(x: Any) -> Any:
            for _ in range(CALLS):
                x = double(x) * 0.5
            return x

        call = tf.function(loop, autograph=False)
        return lambda: call(image)

    return {name: program(double) for name, double in ways.items()}


def programs(ways: dict[str, Any]) -> dict[str, Ways]:
    """The programs of each framework, whose results have been compared."""
    ours = SimpleNamespace(doubled=ways["arraybridge"].doubled)
    made = {
        "in a loop of `jax.jit`": in_jax,
        "in a graph of `torch.compile`": in_torch,
        "in a `tf.function`": in_tensorflow,
    }
    found = {title: make(ours, ways["TVM FFI"]) for title, make in made.items()}
    for title, calls in found.items():
        results = [np.asarray(call()) for call in calls.values()]
        assert all(np.array_equal(result, results[-1]) for result in results), title
    return found
