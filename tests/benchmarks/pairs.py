"""The conversions of the benchmark, with calls by hand and floors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator

import arraybridge as ab
import bridges
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch
from measure import Call, Case, Target

cle = sys.modules.get("pyclesperanto")
FRAMEWORKS = [name for name in bridges.CPU_FRAMEWORKS if name in bridges.INSTALLED]
SMALL = np.arange(256, dtype="float32").reshape(16, 16)

# Targets for the median of ours / by hand.
TARGETS = {
    "numpy -> torch": 0.75, "torch -> numpy": 0.5, "numpy -> jax": 0.22, "torch -> jax": 0.15,
    "tensorflow -> jax": 0.25, "numpy -> tensorflow": 1.0, "torch -> tensorflow": 1.0,
    "jax -> tensorflow": 0.25, "jax -> numpy": 1.0, "jax -> torch": 0.9, "tensorflow -> numpy": 0.5,
    "tensorflow -> torch": 0.9, "numpy -> pyclesperanto": 0.9, "pyclesperanto -> numpy": 1.0,
}  # fmt: skip


def equal(target: str, expected: np.ndarray) -> Callable[[object], None]:
    def check(result: object) -> None:
        difference = bridges.difference(target, result, expected)
        assert difference is None, difference

    return check


def sources(image: np.ndarray) -> dict[str, object]:
    return {name: bridges.make(name, image) for name in FRAMEWORKS}


def pushes(read: Callable[[], np.ndarray]) -> dict[str, Callable[[], object]]:
    """An array, given by a call, to pyclesperanto."""

    def create_and_set() -> object:
        x = read()
        return cle.Array.create(x.shape, x.dtype, "buffer", cle.get_device()).set(x)

    return {"push": lambda: cle.push(read()), "create, set": create_and_set}


def by_hand(source: str, target: str, x: object) -> dict[str, Call]:
    """Several correct calls that an expert would write for a pair."""
    constant, tensor = tf.constant, tf.convert_to_tensor
    from_dlpack = tf.experimental.dlpack.from_dlpack
    if source == target:
        return {"isinstance, return": lambda: x if isinstance(x, type(x)) else None}
    calls: dict[tuple[str, str], dict[str, Callable[[], object]]] = {
        ("numpy", "torch"): {
            "from_numpy": lambda: torch.from_numpy(x), "from_dlpack": lambda: torch.from_dlpack(x)
        },
        ("numpy", "jax"): {
            "jnp.asarray": lambda: jnp.asarray(x), "jnp.array": lambda: jnp.array(x)
        },
        ("numpy", "tensorflow"): {
            "constant": lambda: constant(x), "convert_to_tensor": lambda: tensor(x)
        },
        ("numpy", "pyclesperanto"): pushes(lambda: x),
        ("torch", "numpy"): {
            "numpy()": lambda: x.numpy(), "np.from_dlpack": lambda: np.from_dlpack(x)
        },
        ("torch", "jax"): {
            "from_dlpack": lambda: jax.dlpack.from_dlpack(x),
            "jnp.asarray": lambda: jnp.asarray(x.numpy()),
        },
        ("torch", "tensorflow"): {
            "from_dlpack": lambda: from_dlpack(x.__dlpack__()),
            "legacy capsule": lambda: from_dlpack(torch.utils.dlpack.to_dlpack(x)),
            "constant": lambda: constant(x.numpy()),
        },
        ("torch", "pyclesperanto"): pushes(lambda: x.numpy()),
        ("jax", "numpy"): {
            "np.asarray": lambda: np.asarray(x), "np.from_dlpack": lambda: np.from_dlpack(x)
        },
        ("jax", "torch"): {
            "from_dlpack": lambda: torch.from_dlpack(x),
            "from_numpy": lambda: torch.from_numpy(np.asarray(x)),
        },
        ("jax", "tensorflow"): {
            "from_dlpack": lambda: from_dlpack(x.__dlpack__()),
            "convert_to_tensor": lambda: tensor(x),
        },
        ("jax", "pyclesperanto"): pushes(lambda: np.asarray(x)),
        ("tensorflow", "numpy"): {
            "numpy()": lambda: x.numpy(), "np.asarray": lambda: np.asarray(x)
        },
        ("tensorflow", "torch"): {
            "from_dlpack": lambda: torch.from_dlpack(x),
            "legacy capsule": lambda: torch.from_dlpack(tf.experimental.dlpack.to_dlpack(x)),
        },
        ("tensorflow", "jax"): {
            "from_dlpack": lambda: jax.dlpack.from_dlpack(x),
            "jnp.asarray": lambda: jnp.asarray(x.numpy()),
        },
        ("tensorflow", "pyclesperanto"): pushes(lambda: x.numpy()),
        ("pyclesperanto", "numpy"): {"get()": lambda: x.get(), "cle.pull": lambda: cle.pull(x)},
        ("pyclesperanto", "torch"): {"from_numpy": lambda: torch.from_numpy(x.get())},
        ("pyclesperanto", "jax"): {"jnp.asarray": lambda: jnp.asarray(x.get())},
        ("pyclesperanto", "tensorflow"): {"constant": lambda: constant(x.get())},
    }  # fmt: skip
    return calls[source, target]


@functools.cache
def native() -> dict[str, Callable[[object], object]]:
    """The floors in `floors/src/lib.rs`, bound to the private entry points that exist."""

    def entry(find: Callable[[], object]) -> object:
        with contextlib.suppress(Exception):
            return find()

    def for_tensorflow() -> tuple[object, ...]:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import context

        context.ensure_initialized()
        return pywrap_tfe.TFE_FromDlpackCapsule, context.context()._handle

    def for_jax() -> tuple[object, ...]:
        from jax._src import core
        from jax._src.lib import _jax

        device = jax.devices("cpu")[0]
        aval = core.ShapedArray(SMALL.shape, SMALL.dtype)
        return _jax.batched_device_put, aval, jax.sharding.SingleDeviceSharding(device), [device]

    floors = bridges.extension("tests/benchmarks/floors", "release")
    return floors.bind(
        entry(lambda: torch.Tensor.__dlpack_c_exchange_api__), entry(for_tensorflow), entry(for_jax)
    )


@functools.cache
def through_opencl() -> tuple[Callable[[np.ndarray], object], Callable[[object], np.ndarray]]:
    """The functions of the C++ library that `cle.push` and `Array.get` end up calling."""
    create = type(cle.push(SMALL)).create
    device = cle.get_device()

    def push(x: np.ndarray) -> object:
        image = create(SMALL.shape, SMALL.dtype, "buffer", device)
        image._write(x, None, None)
        return image

    return push, lambda x: x._read_float32(None, None)


def floors(source: str, target: str, x: object) -> dict[str, Call]:
    """Calls that know the pair, the dtype and the shape in advance and check nothing."""
    if source == target:
        return {}
    if (source, target) == ("torch", "numpy"):
        held, asked, bare = (native()["torch_to_numpy" + how] for how in ("", "_asked", "_bare"))
        return {"": lambda: held(x), "storage not held": lambda: asked(x), "bare": lambda: bare(x)}
    if target == "pyclesperanto":
        push, _ = through_opencl()
        if source == "numpy":
            return {"": lambda: push(x)}
        read = native()[f"{source}_to_numpy" + "_bare" * (source == "torch")]
        return {"": lambda: push(read(x))}
    if source == "pyclesperanto":
        _, get = through_opencl()
        if target == "numpy":
            return {"": lambda: get(x)}
        make = native()[f"numpy_to_{target}"]
        return {"": lambda: make(get(x))}
    call = native()[f"{source}_to_{target}"]
    return {"": lambda: call(x)}


def finished(call: Call) -> Call:
    """The same call, waiting for JAX to finish all that is in its result."""
    return lambda: jax.block_until_ready(call())


def pairs(image: np.ndarray, large: bool = False) -> Iterator[Case]:
    """Every conversion of an image. Targets and floors are for `SMALL`."""
    arrays = sources(image)
    for source, target in itertools.product(FRAMEWORKS, FRAMEWORKS):
        x, name = arrays[source], f"{source} -> {target}"
        complete = finished if large and target == "jax" else lambda call: call
        most = Target(60, "added") if source == target else None
        if name in TARGETS:
            most = Target(TARGETS[name])
        yield Case(
            name,
            complete(lambda x=x, target=target: ab.convert(x, target)),
            {what: complete(hand) for what, hand in by_hand(source, target, x).items()},
            equal(target, image),
            {} if large else floors(source, target, x),
            lambda package, ends=(x, source, target), complete=complete: complete(
                functools.partial(package.convert_memory, *ends, None)
            ),
            None if large else most,
        )
