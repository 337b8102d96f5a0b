"""Whole pipelines, each as an expert writes it by hand, with arraybridge, and with the original.

A job has ``size`` (how much work it is), ``data(size)``, and a function for each contender that
takes the data and the package. All contenders call the same kernels, so that their results are
equal bit for bit, and what differs is the way between the frameworks.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

Contender = Callable[[Any, Any], Any]


@dataclass
class Job:
    """A workload, and who does it. ``scope`` surrounds the measured part."""

    about: str
    size: int
    data: Callable[[int], Any]
    contenders: dict[str, Contender]
    most: float  # ours may take this many times the expert's time
    small: int = 1  # the size to warm up with
    scope: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    needs: tuple[str, ...] = field(default=())


def fields(count: int, side: int = 2048) -> list[np.ndarray]:
    """Fields of a plate: spots on an uneven background, with the noise of a camera, as uint16."""
    y, x = np.mgrid[:side, :side].astype("float32") / side
    made = []
    for index in range(count):
        rng = np.random.default_rng(index)
        image = 400 * (1 + x * y)
        for row, column in rng.integers(16, side - 16, (400, 2)):
            image[row - 8 : row + 8, column - 8 : column + 8] += rng.integers(200, 4000)
        made.append(rng.poisson(image).astype("uint16"))
    return made


# A plate: background (NumPy), noise (torch), deconvolution (JAX), mask (pyclesperanto) -----------


def background(image: np.ndarray) -> np.ndarray:
    return np.maximum(image.astype("float32") - np.float32(np.median(image[::8, ::8])), 0)


def denoise(image: Any) -> Any:
    import torch

    line = torch.exp(-(torch.arange(-4, 5, dtype=torch.float32) ** 2) / 4)
    line /= line.sum()
    x = torch.nn.functional.conv2d(image[None, None], line[None, None, :, None], padding=(4, 0))
    return torch.nn.functional.conv2d(x, line[None, None, None, :], padding=(0, 4))[0, 0]


@cache
def _deconvolution() -> Callable[[Any], Any]:
    """Two steps of Richardson and Lucy's, with a Gaussian of 1.5 pixels.

    The Gaussian is a sum of shifted images, not a product of Fourier transforms: XLA's transforms
    round differently from run to run on a CPU, so that even code by hand differs from itself.
    """
    import jax
    import jax.numpy as jnp

    line = np.exp(-(np.arange(-6, 7) ** 2) / (2 * 1.5**2))
    line = (line / line.sum()).astype("float32")

    def blurred(x: Any) -> Any:
        for axis in (0, 1):
            wide = jnp.pad(x, [(6, 6) if axis == each else (0, 0) for each in (0, 1)], mode="edge")
            size = x.shape[axis]
            parts = (jax.lax.slice_in_dim(wide, i, i + size, axis=axis) for i in range(len(line)))
            x = sum(part * weight for part, weight in zip(parts, line, strict=True))
        return x

    @jax.jit
    def deconvolved(image: Any) -> Any:
        estimate = image
        for _ in range(2):
            estimate = estimate * blurred(image / jnp.maximum(blurred(estimate), 1e-3))
        return estimate

    return deconvolved


def deconvolve(image: Any) -> Any:
    return _deconvolution()(image)


def segment(image: Any) -> Any:
    import pyclesperanto as cle

    return cle.threshold_otsu(image)


def plate_by_hand(images: list[np.ndarray], package: Any) -> list[np.ndarray]:
    import jax.numpy as jnp
    import pyclesperanto as cle
    import torch

    masks = []
    for image in images:
        smooth = denoise(torch.from_numpy(background(image)))
        sharp = deconvolve(jnp.from_dlpack(smooth))
        masks.append(cle.pull(segment(cle.push(np.asarray(sharp)))))
    return masks


def plate_by_convert(images: list[np.ndarray], package: Any) -> list[np.ndarray]:
    """As the original can do it: its declared functions take arrays of one framework alone."""
    masks = []
    for image in images:
        image, source = background(image), "numpy"
        for step, name in ((denoise, "torch"), (deconvolve, "jax"), (segment, "pyclesperanto")):
            image, source = step(package.convert_memory(image, source, name, None)), name
        masks.append(package.convert_memory(image, source, "numpy", None))
    return masks


def plate(images: list[np.ndarray], package: Any) -> list[np.ndarray]:
    """With the variables of the code by hand: what either code frees earlier comes as new pages of
    the system next time, which costs a tenth of its time."""
    keep = {"dtype_conversion": "native"}
    subtracted = package.numpy(**keep)(background)
    denoised = package.torch(**keep)(denoise)
    deconvolved = package.jax(**keep)(deconvolve)
    segmented = package.pyclesperanto(output_type="numpy", **keep)(segment)
    masks = []
    for image in images:
        smooth = denoised(subtracted(image))
        sharp = deconvolved(smooth)
        masks.append(segmented(sharp))
    return masks


# A stack, slice by slice -------------------------------------------------------------------------


def stack(size: int) -> np.ndarray:
    return np.stack(fields(size, 256)).astype("float32")


def normalized(image: Any) -> Any:
    """The same in every framework: methods that all of their arrays understand."""
    return (image - image[0, 0]) / 4000


def _own(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """How an expert brings a stack to a framework, takes it apart and puts it together."""
    if name == "numpy":
        return np.asarray, list, np.stack
    if name == "torch":
        import torch

        return torch.from_numpy, lambda x: x.unbind(0), torch.stack
    if name == "jax":
        import jax.numpy as jnp

        return jnp.asarray, list, lambda slices: jnp.stack(slices).block_until_ready()
    import tensorflow as tf

    return tf.constant, tf.unstack, tf.stack


def slices_by_hand(name: str, data: np.ndarray, package: Any) -> np.ndarray:
    bring, apart, together = _own(name)
    return np.asarray(together([normalized(each) for each in apart(bring(data))]))


def slices_in_a_function(name: str, data: np.ndarray, package: Any) -> np.ndarray:
    """By hand as well, but with the stack as an argument, which lives until the call returns."""
    bring, apart, together = _own(name)
    return np.asarray((lambda x: together([normalized(each) for each in apart(x)]))(bring(data)))


def slices(name: str, data: np.ndarray, package: Any) -> np.ndarray:
    declared = getattr(package, name)(normalized)
    return np.asarray(declared(data, slice_by_slice=True))


def slices_of_own(name: str, data: np.ndarray, package: Any) -> np.ndarray:
    """As the original can do it: functions compute in the framework of its arrays."""
    declared = getattr(package, name)(normalized)
    return np.asarray(declared(_own(name)[0](data), slice_by_slice=True))


# A loop over a data set --------------------------------------------------------------------------


def crops(size: int) -> list[Any]:
    import torch

    rng = np.random.default_rng(0)
    return list(torch.from_numpy(rng.random((size, 32, 32), "float32")))


@cache
def _augmentation() -> Callable[[Any], Any]:
    import jax

    return jax.jit(lambda image: image[::-1] * 2 - 1)


def augmented(image: Any) -> Any:
    return _augmentation()(image)


def loop_by_hand(tensors: list[Any], package: Any) -> np.ndarray:
    import jax.numpy as jnp
    import torch

    results = [torch.from_dlpack(augmented(jnp.from_dlpack(each))) for each in tensors]
    return torch.stack(results).numpy()


def loop_by_convert(tensors: list[Any], package: Any) -> np.ndarray:
    """As the original can do it."""
    import torch

    convert = package.convert_memory
    results = [augmented(convert(each, "torch", "jax", None)) for each in tensors]
    return torch.stack([convert(each, "jax", "torch", None) for each in results]).numpy()


def loop(tensors: list[Any], package: Any) -> np.ndarray:
    import torch

    declared = package.jax(output_type="torch")(augmented)
    return torch.stack([declared(each) for each in tensors]).numpy()


# The parameters of a model -----------------------------------------------------------------------


def states(size: int) -> list[dict[str, Any]]:
    """State dicts of 288 tensors each, as that of a residual network without its counters."""
    import torch

    rng = np.random.default_rng(0)
    shapes = ((64, 64, 3, 3), (64,), (128, 64), (16, 16))
    layers = {f"layers.{n}.weight": shapes[n % 4] for n in range(288)}
    made = {name: torch.from_numpy(rng.random(shape, "float32")) for name, shape in layers.items()}
    return [dict(made) for _ in range(size)]


def _flat(state: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.asarray(array).ravel() for array in state.values()])


def states_by_hand(found: list[dict[str, Any]], package: Any) -> np.ndarray:
    import jax.numpy as jnp

    for state in found:
        made = {name: jnp.asarray(tensor.numpy()) for name, tensor in state.items()}
    return _flat(made)


def states_by_loop(found: list[dict[str, Any]], package: Any) -> np.ndarray:
    for state in found:
        made = {name: package.convert(tensor, "jax") for name, tensor in state.items()}
    return _flat(made)


def states_by_convert(found: list[dict[str, Any]], package: Any) -> np.ndarray:
    """As the original can do it."""
    for state in found:
        made = {k: package.convert_memory(v, "torch", "jax", None) for k, v in state.items()}
    return _flat(made)


def trees(found: list[dict[str, Any]], package: Any) -> np.ndarray:
    for state in found:
        made = package.convert_tree(state, "jax")
    return _flat(made)


# A model in PyTorch, and a loss in JAX -----------------------------------------------------------


def pairs(size: int) -> list[Any]:
    """An image and what a model is to make of it, ``size`` times."""
    import torch

    rng = np.random.default_rng(0)
    return [torch.from_numpy(each) for each in rng.random((size, 2, 256, 256), "float32")]


@cache
def _dissimilarity() -> Callable[[Any, Any], Any]:
    """One minus the structural similarity (SSIM) of two images."""
    import jax

    def mean(x: Any) -> Any:
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (7, 7), (1, 1), "VALID") / 49

    def dissimilarity(x: Any, y: Any) -> Any:
        x_mean, y_mean = mean(x), mean(y)
        x_var, y_var = mean(x * x) - x_mean**2, mean(y * y) - y_mean**2
        over = (2 * x_mean * y_mean + 1e-4) * (2 * (mean(x * y) - x_mean * y_mean) + 9e-4)
        return 1 - (over / ((x_mean**2 + y_mean**2 + 1e-4) * (x_var + y_var + 9e-4))).mean()

    return jax.jit(dissimilarity)


@cache
def _dissimilarity_by_hand() -> Any:
    """It as a function of PyTorch, as torch2jax makes one."""
    import jax
    import torch

    linearized = jax.jit(lambda x, y: jax.vjp(lambda x: _dissimilarity()(x, y), x))
    pulled = jax.jit(lambda pull, gradient: pull(gradient)[0])

    class Dissimilarity(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            value, ctx.pull = linearized(
                *(jax.dlpack.from_dlpack(each.detach()) for each in (x, y))
            )
            return torch.from_dlpack(value)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            found = pulled(ctx.pull, jax.dlpack.from_dlpack(gradient.detach()))
            return torch.from_dlpack(found), None

    return Dissimilarity.apply


def trained(data: list[Any], loss: Callable[[Any, Any], Any]) -> np.ndarray:
    """The losses of a training of three convolutions."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(*of, 3, padding=1) for of in ((1, 8), (8, 8), (8, 1))]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for image, target in data:
        optimizer.zero_grad()
        value = loss(model(image[None, None])[0, 0], target)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return np.array(losses)


def training_by_hand(data: list[Any], package: Any) -> np.ndarray:
    return trained(data, _dissimilarity_by_hand())


def training(data: list[Any], package: Any) -> np.ndarray:
    return trained(data, package.jax(differentiable=True)(_dissimilarity()))


# A stack that does not fit into memory -----------------------------------------------------------

ROOM = 1 << 30


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """The process may take ``ROOM`` bytes of address space more than it has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def large(size: int) -> np.ndarray:
    return np.concatenate([np.stack(fields(4, 512))] * size)


def smoothed(images: np.ndarray) -> np.ndarray:
    """Means along the columns in float64, for which a stack of 512 images needs 2 GiB."""
    x = np.cumsum(images, axis=-1, dtype="float64")
    x[..., 5:] -= x[..., :-5].copy()
    return (x / 5).astype("float32")


def chunks_by_hand(images: np.ndarray, package: Any) -> np.ndarray:
    result = np.empty(images.shape, "float32")
    for start in range(0, len(images), 32):
        result[start : start + 32] = smoothed(images[start : start + 32])
    return result


def ladder(images: np.ndarray, package: Any) -> np.ndarray:
    return package.numpy(split_axis=0, dtype_conversion="native")(smoothed)(images)


def whole(images: np.ndarray, package: Any) -> np.ndarray:
    return smoothed(images)


# -------------------------------------------------------------------------------------------------

HAND, OURS, ORIGINAL = "by hand", "arraybridge", "original"

JOBS = {
    "plate": Job(
        "fields of 2048 x 2048 uint16 through NumPy, PyTorch, JAX and pyclesperanto", 96, fields,
        {HAND: plate_by_hand, OURS: plate, ORIGINAL: plate_by_convert}, 1.02,
        needs=("torch", "jax", "pyclesperanto"),
    ),
    **{
        f"slices of {name}": Job(
            "slices of 256 x 256 float32, one by one", 64, stack,
            {HAND: partial(slices_by_hand, name),
             "by hand, in a function": partial(slices_in_a_function, name),
             OURS: partial(slices, name), ORIGINAL: partial(slices_of_own, name)},
            1.02, small=64, needs=(name,),  # JAX compiles for the number of slices
        )
        for name in ("numpy", "torch", "jax", "tensorflow")
    },
    "data set": Job(
        "arrays of 32 x 32 float32 from PyTorch to JAX and back", 10_000, crops,
        {HAND: loop_by_hand, OURS: loop, ORIGINAL: loop_by_convert}, 0.9,
        small=10, needs=("torch", "jax"),
    ),
    "parameters": Job(
        "state dicts of 288 tensors from PyTorch to JAX", 200, states,
        {HAND: states_by_hand, "loop over convert": states_by_loop, OURS: trees,
         ORIGINAL: states_by_convert},
        0.5, needs=("torch", "jax"),
    ),
    "training": Job(
        "steps of a model in PyTorch whose loss, on 256 x 256 float32, is in JAX", 100, pairs,
        {HAND: training_by_hand, OURS: training}, 1.05, small=2, needs=("torch", "jax"),
    ),
    "memory": Job(
        "images of 512 x 512 with 1 GiB of memory to spare; by hand in chunks of 32", 128, large,
        {HAND: chunks_by_hand, OURS: ladder, "without the ladder": whole, ORIGINAL: ladder},
        1.02, scope=little_memory,
    ),
}  # fmt: skip
