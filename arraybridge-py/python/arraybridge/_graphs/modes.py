"""What a program has switched on in its frameworks, which they keep for each thread.

A call reads it once, where it is recorded. It is handed on to what the call leaves for later or for
other threads: callbacks of compiled programs, derivatives, and the workers of tiles.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__: list[str] = []

# A module that is being imported, or that another one has left there, lacks this.
_READY = {"torch": "autograd", "jax": "vjp", "tensorflow": "GradientTape"}


def ready() -> tuple[str, ...]:
    """Return the names of the imported frameworks with gradients."""
    return tuple(name for name, what in _READY.items() if hasattr(sys.modules.get(name), what))


class Mode(NamedTuple):
    """A setting: how it is read, and the block that sets it."""

    read: Callable[[], Any]
    block: Callable[[Any], contextlib.AbstractContextManager[Any]]


class Modes:
    """The settings of the thread that makes this object."""

    def __init__(self) -> None:
        modes = _modes(ready())
        self.values = [(mode, mode.read()) for mode in modes]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modes) and self.values == other.values

    def __hash__(self) -> int:
        return hash(tuple(str(value) for _, value in self.values))

    def on(self) -> contextlib.AbstractContextManager[None]:
        """Set them where this thread has others."""
        if all([mode.read() == value for mode, value in self.values]):
            return contextlib.nullcontext()
        return self._on()

    @contextlib.contextmanager
    def _on(self) -> Iterator[None]:
        with contextlib.ExitStack() as blocks:
            for mode, value in self.values:
                if mode.read() != value:
                    blocks.enter_context(mode.block(value))
            yield

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with them."""
        with self.on():
            return function(*arguments)


@functools.cache
def _modes(frameworks: tuple[str, ...]) -> list[Mode]:
    of = {"torch": _of_torch, "jax": _of_jax}
    return [mode for name in frameworks if name in of for mode in of[name]()]


def _of_torch() -> list[Mode]:
    import torch

    def autocast(device: str) -> Mode:
        def read() -> Any:
            return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)

        return Mode(read, lambda value: torch.autocast(device, value or None, enabled=bool(value)))

    return [
        # This one sets the next one.
        Mode(torch.is_inference_mode_enabled, torch.inference_mode),
        Mode(torch.is_grad_enabled, torch.set_grad_enabled),
        Mode(torch.get_default_device, lambda device: device),
        *map(autocast, ("cpu", "cuda")),
    ]


_OF_JAX = (
    "enable_x64", "default_device", "default_matmul_precision", "default_prng_impl",
    "threefry_partitionable", "numpy_dtype_promotion", "numpy_rank_promotion", "debug_nans",
    "debug_infs", "transfer_guard_host_to_device", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
)  # fmt: skip


def _of_jax() -> list[Mode]:
    import jax
    import jax.experimental

    def mode(name: str) -> Mode | None:
        # An older JAX has some elsewhere, or not at all.
        block: Any = getattr(jax, name, getattr(jax.experimental, name, None))
        known = block is not None and hasattr(jax.config, f"jax_{name}")
        return Mode(functools.partial(getattr, jax.config, f"jax_{name}"), block) if known else None

    return [found for found in map(mode, _OF_JAX) if found is not None]
