"""A program of a user, which `make lint` checks strictly. It has no Any."""

# pyright: strict

from typing import assert_type

import arraybridge as ab
import jax
import numpy as np
import numpy.typing as npt
import torch

Image = npt.NDArray[np.float32]


@ab.torch
def smooth(image: ab.ArrayLike[torch.Tensor], sigma: float = 1.0) -> torch.Tensor:
    return image * sigma


@ab.torch(output_type="numpy", dtype_conversion="preserve", tiles=(512, 512), halo=16)
def edges(image: ab.ArrayLike[torch.Tensor]) -> torch.Tensor:
    return image.abs()


@ab.memory_types("torch", "numpy", slice_by_slice=True, on_oom="split", split_axis=0)
def sliced(image: ab.ArrayLike[torch.Tensor]) -> torch.Tensor:
    return image


@ab.torch(output_type="input")
def smoother(image: ab.ArrayLike[torch.Tensor], sigma: float = 1.0) -> torch.Tensor:
    return image * sigma


@ab.torch(output_type="jax")
def mean(image: ab.ArrayLike[torch.Tensor]) -> float:
    return float(image.mean())


@ab.torch(keep="strict", on_oom="host")
def shape(image: ab.ArrayLike[torch.Tensor]) -> tuple[int, ...]:
    return tuple(image.shape)


def use(image: Image) -> None:
    assert_type(ab.convert(image, "torch"), torch.Tensor)
    assert_type(ab.convert(image, torch), torch.Tensor)
    assert_type(ab.convert(image, torch.Tensor), torch.Tensor)
    assert_type(ab.convert(image, jax.Array, copy=True), jax.Array)
    on_host: Image = ab.convert(smooth(image), np)
    assert_type(smooth(on_host, sigma=2.0), torch.Tensor)
    found: list[Image] = [edges(image), sliced(image), ab.convert(image, np.ndarray)]
    assert_type(edges(image).ndim, int)
    # For ty this is Any: it does not read a first argument out of a signature.
    again: Image = smoother(image, sigma=2.0)
    assert_type(shape(image), tuple[int, ...])
    print(ab.explain(image, "jax"), found, again, ab.detect_memory_type(on_host))
    with ab.trace() as records, ab.dtype_policy(dtype_conversion="native"):
        ab.convert(image, "jax")
    print([record.why for record in records])
