"""Declared functions of an importable module: what pickle and other processes look up by name."""

from __future__ import annotations

import functools

import arraybridge


@arraybridge.numpy
def doubled(image):
    """Twice the image."""
    return image * 2


@arraybridge.torch(output_type="input")
def torch_doubled(image):
    return image * 2


class Images:
    """A dataset for a DataLoader, whose workers import it by its name."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        import torch

        return torch_doubled(torch.full((2, 2), float(index)))


def plain(image):
    return image + 1


wrapped = arraybridge.numpy(functools.partial(plain))
renamed = arraybridge.numpy(plain)
named = arraybridge.numpy(plain)
named.__qualname__ = "named"


class Filters:
    def __init__(self, by=3):
        self.by = by

    @arraybridge.torch(output_type="input")
    def times(self, image):
        return image * self.by
