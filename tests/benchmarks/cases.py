"""The groups of cases that the benchmark compares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import arraybridge as ab
import bridges
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
import torch
from loaded import loaded
from measure import Call, Case, Target
from pairs import FRAMEWORKS, SMALL, equal, finished, pairs, sources

STACK = {"numpy": np.stack, "torch": torch.stack, "jax": jnp.stack, "tensorflow": tf.stack}


def decorated() -> Iterator[Case]:
    """The cost that a declaration adds. Targets are added nanoseconds, not ratios."""
    image = np.ones((16, 16), "float32")
    most = {"numpy": 150, "torch": 250, "jax": 250, "tensorflow": 350}

    def plain(image):
        return image

    for name, x in sources(image).items():
        declare, added = getattr(ab, name), most.get(name)
        variants = {
            "arguments fit": declare(plain),
            "policy off": declare(dtype_conversion="native")(plain),
        }
        for what, declared in variants.items():
            case = Case(
                f"@{name}, {what}",
                lambda x=x, f=declared: f(x),
                {"undeclared": lambda x=x: plain(x)},
                equal(name, image),
                target=added and Target(added, "added"),
            )
            if what == "arguments fit":
                case.original = lambda package, name=name, x=x: functools.partial(
                    getattr(package, name)(plain), x
                )
            yield case

    def twice(image):
        return image.float() * 2

    counts = np.arange(256, dtype="uint16").reshape(16, 16)
    declared = ab.torch(twice, output_type="numpy")
    yield Case(
        "@torch on NumPy uint16, result float32 and back to uint16",
        lambda: declared(counts),
        {
            "by hand": lambda: (
                twice(torch.from_numpy(counts)).round().clamp(0, 65535).numpy().astype("uint16")
            )
        },
        equal("numpy", counts * 2),
        original=lambda package: functools.partial(
            package.torch(twice, output_type="numpy"), counts
        ),
    )


def functions() -> Iterator[Case]:
    """Declared Rust functions, and the same functions with PyO3 and rust-numpy."""
    module = bridges.extension("tests/benchmarks/functions", "release")
    image = np.arange(256, dtype="float32").reshape(16, 16)

    def is_total(result: object) -> None:
        assert result == image.sum()

    checks = {"total": is_total, "doubled": equal("numpy", image * 2)}
    signatures = {"total": "an array to a number", "doubled": "an array to an array"}
    for name, check in checks.items():
        declared, hand = getattr(module, name), getattr(module, f"{name}_by_hand")
        yield Case(
            f"{signatures[name]}, (16, 16) float32",
            lambda f=declared: f(image),
            {"PyO3 and rust-numpy": lambda f=hand: f(image)},
            check,
            target=Target(100, "added"),
        )


def policies() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    image = rng.uniform(-10, 70000, (4096, 4096)).astype("float32")

    def by_hand(image: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(image), 0, 65535).astype("uint16")

    expected = by_hand(image)
    source = np.empty((image.nbytes + expected.nbytes) // 2, "uint8")
    sink = np.empty_like(source)
    for part in (image, image[:1024, :1024].copy()):
        yield Case(
            f"float32 -> uint16, {len(part)} x {len(part)}",
            lambda part=part: ab.convert(part, "numpy", dtype="uint16"),
            {"np.clip(np.rint(x), ..)": lambda part=part: by_hand(part)},
            equal("numpy", by_hand(part)),
        )
    yield Case(
        "float32 -> uint16, against a copy of the same traffic",
        lambda: ab.convert(image, "numpy", dtype="uint16"),
        {"np.copyto": lambda: np.copyto(sink, source)},
        note="ours writes to fresh memory, the copy to warm memory",
    )
    tensor = torch.from_numpy(image)
    yield Case(
        "torch float32 -> NumPy uint16, 4096 x 4096",
        lambda: ab.convert(tensor, "numpy", dtype="uint16"),
        {
            "clamp in torch": lambda: (
                tensor.round().clamp(0, 65535).to(torch.int32).numpy().astype("uint16")
            ),
            "clip in NumPy": lambda: by_hand(tensor.numpy()),
        },
        equal("numpy", expected),
    )

    def stretch() -> np.ndarray:
        low, high = float(image.min()), float(image.max())
        return ((image - low) / (high - low) * 65535).astype("uint16")

    def close(result: object) -> None:
        assert abs(np.asarray(result).astype("int32") - stretch().astype("int32")).max() <= 1

    yield Case(
        "stretch to uint16, 4096 x 4096",
        lambda: ab.SCALING_FUNCTIONS["numpy"](image, "uint16"),
        {"min-max in NumPy": stretch},
        close,
        original=lambda package: functools.partial(
            package.SCALING_FUNCTIONS["numpy"], image, np.uint16
        ),
        target=Target(0.2, "original"),
    )


def detection() -> Iterator[Case]:
    for name, x in sources(SMALL).items():

        def is_it(result: object, name: str = name) -> None:
            assert result == name, result

        yield Case(
            f"detect_memory_type, {name}",
            lambda x=x: ab.detect_memory_type(x),
            {"empty call": lambda name=name: name},
            is_it,
            original=lambda package, x=x: functools.partial(package.detect_memory_type, x),
            target=Target(50, "added"),
        )


def alignment() -> Iterator[Case]:
    """NumPy arrays that JAX and TensorFlow could share, and such that they could not.

    TensorFlow imports what is not aligned and ends the process when it is used.
    """
    by_hand: dict[str, tuple[Callable[[np.ndarray], object], Callable[[np.ndarray], object]]] = {
        "jax": (jax.dlpack.from_dlpack, jnp.array),
        "tensorflow": (lambda x: tf.experimental.dlpack.from_dlpack(x.__dlpack__()), tf.constant),
    }
    for name, (share, copy) in by_hand.items():
        complete = finished if name == "jax" else lambda call: call
        for what, offset, how, hand in (
            ("aligned", 0, False, share),
            ("aligned", 0, None, copy),
            ("unaligned", 16, None, copy),
        ):
            x = bridges.aligned(SMALL, offset)
            yield Case(
                f"{what} numpy -> {name}, {'copied' if how is None else 'shared'}",
                complete(lambda x=x, name=name, how=how: ab.convert(x, name, copy=how)),
                {"by hand": complete(lambda x=x, hand=hand: hand(x))},
                equal(name, SMALL),
                target=Target(1.0),
            )


def orders() -> Iterator[Case]:
    """An image in colors whose elements torch is to have in another order."""
    image = (np.arange(512 * 512 * 3) % 251).astype("uint8").reshape(512, 512, 3)
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    pixels, channels = torch.from_numpy(image), torch.from_numpy(planes)
    part = (slice(5, -5), slice(7, -8))
    ways: dict[str, tuple[np.ndarray, Call]] = {
        "as it is": (image, lambda: pixels.clone()),
        "channels to the front": (
            image.transpose(2, 0, 1),
            lambda: pixels.permute(2, 0, 1).contiguous(),
        ),
        "channels to the end": (
            planes.transpose(1, 2, 0),
            lambda: channels.permute(1, 2, 0).contiguous(),
        ),
        "channels in reverse order": (image[..., ::-1], lambda: pixels.flip(2)),
        "channels in reverse order and to the front": (
            image[..., ::-1].transpose(2, 0, 1),
            lambda: pixels.flip(2).permute(2, 0, 1).contiguous(),
        ),
        "mirrored": (image[:, ::-1], lambda: pixels.flip(1)),
        "a part of each row, channels to the front": (
            image[part].transpose(2, 0, 1),
            lambda: pixels[part].permute(2, 0, 1).contiguous(),
        ),
    }
    for name, (view, by_torch) in ways.items():
        yield Case(
            name,
            lambda view=view: ab.convert(view, "torch", copy=True),
            {
                "copy in NumPy": lambda view=view: torch.from_numpy(view.copy()),
                "copy in torch": by_torch,
            },
            equal("torch", np.ascontiguousarray(view)),
        )


def stacking() -> Iterator[Case]:
    for count, side in ((64, 512), (64, 256), (64, 64), (8, 16)):
        yield from stacking_of(count, side)


def stacking_of(count: int, side: int) -> Iterator[Case]:
    images = [np.full((side, side), i, "float32") for i in range(count)]
    for name in filter(STACK.get, FRAMEWORKS):
        slices = [bridges.make(name, image) for image in images]
        complete = finished if name == "jax" else lambda call: call
        yield Case(
            f"{count} slices of {side} x {side}, {name}",
            complete(lambda s=slices, name=name: ab.stack_slices(s, name)),
            {"own stack": complete(lambda s=slices, name=name: STACK[name](s))},
            equal(name, np.stack(images)),
            original=lambda package, s=slices, name=name, complete=complete: complete(
                functools.partial(package.stack_slices, s, name, 0)
            ),
            target=Target(1.05),
        )


# How an expert takes a stack apart.
APART: dict[str, Call] = {
    "numpy": list,
    "torch": lambda x: x.unbind(0),
    "jax": list,
    "tensorflow": lambda x: tf.unstack(x),
}


def unstacking() -> Iterator[Case]:
    image = np.arange(64 * 512 * 512, dtype="float32").reshape(64, 512, 512)
    for name, x in sources(image).items():
        if name not in APART:
            continue
        complete = finished if name == "jax" else lambda call: call

        def check(slices: object, name: str = name) -> None:
            assert len(slices) == len(image)
            for slice, expected in zip(slices, image, strict=True):
                equal(name, expected)(slice)

        yield Case(
            f"64 slices of 512 x 512, {name}",
            complete(lambda x=x, name=name: ab.unstack_slices(x, name)),
            {
                "list": complete(lambda x=x: list(x)),
                "framework's own": complete(lambda x=x, name=name: APART[name](x)),
            },
            check,
            original=lambda package, x=x, name=name, complete=complete: complete(
                functools.partial(package.unstack_slices, x, name, 0)
            ),
            target=Target(1.0),
        )


def slice_by_slice() -> Iterator[Case]:
    image = np.arange(64 * 256 * 256, dtype="float32").reshape(64, 256, 256)
    for name, x in sources(image).items():
        if name not in STACK:
            continue
        declared = getattr(ab, name)(slice_by_slice=True)(lambda slice: slice + 1)
        complete = finished if name == "jax" else lambda call: call
        yield Case(
            f"64 slices of 256 x 256, {name}",
            complete(lambda x=x, declared=declared: declared(x)),
            {
                "loop and stack": complete(lambda x=x, name=name: STACK[name]([s + 1 for s in x])),
                "unstack and stack": complete(
                    lambda x=x, name=name: STACK[name]([s + 1 for s in APART[name](x)])
                ),
            },
            equal(name, image + 1),
            original=lambda package, x=x, name=name, complete=complete: complete(
                functools.partial(
                    getattr(package, name)(lambda slice: slice + 1), x, slice_by_slice=True
                )
            ),
            target=Target(1.0),
        )


def threads() -> Iterator[Case]:
    """Two calls at once, and one after the other.

    A single call of this size already uses two threads. On two cores, 1 is the best possible ratio.
    """
    pool = ThreadPoolExecutor(2)

    def both(call: Call) -> Call:
        return lambda: [done.result() for done in [pool.submit(call), pool.submit(call)]]

    transposed = np.ones((2048, 2048), "float32").T
    image = np.ones((2048, 2048), "float32")
    work = {
        "strided copy to JAX": lambda: ab.convert(transposed, "jax", copy=True),
        "float32 -> uint16": lambda: ab.convert(image, "numpy", dtype="uint16"),
    }
    for name, one in work.items():
        yield Case(
            f"{name} in two threads",
            both(one),
            {"one after the other": lambda one=one: (one(), one())},
        )


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "small": lambda: pairs(SMALL),
    "large": lambda: pairs(np.arange(1 << 24, dtype="float32").reshape(4096, 4096), large=True),
    "loaded": loaded,
    "declared": decorated,
    "functions": functions,
    "dtype": policies,
    "detect": detection,
    "alignment": alignment,
    "order": orders,
    "stack": stacking,
    "unstack": unstacking,
    "slices": slice_by_slice,
    "threads": threads,
}
