"""What a program has switched on in its frameworks, which they keep for each thread.

A call reads it once, where it is recorded. It is handed on to what the call leaves for later or for
other threads: callbacks of compiled programs, derivatives, and the workers of tiles.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__: list[str] = []

# A module that is being imported, or that another one has left there, lacks this.
_READY = {"torch": "autograd", "jax": "vjp", "tensorflow": "GradientTape"}


def ready() -> tuple[str, ...]:
    """Return the names of the imported frameworks with gradients."""
    return tuple(name for name, what in _READY.items() if hasattr(sys.modules.get(name), what))


Block = Callable[[Any], contextlib.AbstractContextManager[Any]]


class Mode(NamedTuple):
    """Settings of a framework: how all are read, and the blocks that set each of them."""

    read: Callable[[], tuple[Any, ...]]
    blocks: Sequence[Block]


class Modes:
    """The settings of the thread that makes this object."""

    def __init__(self) -> None:
        self.values = [(mode, mode.read()) for mode in _modes(ready())]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modes) and self.values == other.values

    def __hash__(self) -> int:
        return hash(tuple([str(value) for _, value in self.values]))

    def on(self) -> contextlib.AbstractContextManager[Any]:
        """Set them where this thread has others."""
        others: list[tuple[Block, Any]] = []
        for mode, values in self.values:
            if (now := mode.read()) != values:
                each = zip(mode.blocks, values, now, strict=True)
                others += [(block, value) for block, value, is_now in each if value != is_now]
        if len(others) > 1:
            return _all(others)
        return others[0][0](others[0][1]) if others else contextlib.nullcontext()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with them."""
        with self.on():
            return function(*arguments)


@contextlib.contextmanager
def _all(blocks: Sequence[tuple[Block, Any]]) -> Iterator[None]:
    with contextlib.ExitStack() as entered:
        for block, value in blocks:
            entered.enter_context(block(value))
        yield


@functools.cache
def _modes(frameworks: tuple[str, ...]) -> list[Mode]:
    of = {"torch": _of_torch, "jax": _of_jax}
    return [of[name]() for name in frameworks if name in of]


def _of_torch() -> Mode:
    import torch

    host, devices = torch.device("cpu"), ("cpu", "cuda")

    def read() -> tuple[Any, ...]:
        return (
            (torch.is_inference_mode_enabled(), torch.is_grad_enabled()),
            # Any but the host is a mode in this stack, which PyTorch takes long to look through.
            torch._C._len_torch_function_stack() and torch.get_default_device() or host,
            *[torch.is_autocast_enabled(at) and torch.get_autocast_dtype(at) for at in devices],
        )

    @contextlib.contextmanager
    def recorded(value: tuple[bool, bool]) -> Iterator[None]:
        # Inference mode sets the other one too.
        with torch.inference_mode(value[0]), torch.set_grad_enabled(value[1]):
            yield

    def autocast(device: str) -> Block:
        return lambda value: torch.autocast(device, value or None, enabled=bool(value))

    return Mode(read, (recorded, torch.device, *map(autocast, devices)))


_OF_JAX = (
    "enable_x64", "default_device", "default_matmul_precision", "default_prng_impl",
    "threefry_partitionable", "numpy_dtype_promotion", "numpy_rank_promotion", "debug_nans",
    "debug_infs", "transfer_guard_host_to_device", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
)  # fmt: skip


def _of_jax() -> Mode:
    import jax
    import jax.experimental

    # An older JAX has some elsewhere, or not at all.
    found = {name: getattr(jax, name, getattr(jax.experimental, name, None)) for name in _OF_JAX}
    blocks = {
        f"jax_{name}": block
        for name, block in found.items()
        if block is not None and hasattr(jax.config, f"jax_{name}")
    }
    read = functools.partial(operator.attrgetter(*blocks), jax.config)
    return Mode(read, tuple(blocks.values()))
