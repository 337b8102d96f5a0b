"""A fake framework that needs what no table of ours needs: see tests/seventh/fake_picky.toml.

It must be started before anything else is asked of it. An import has to be given the right dtype
object. It takes some dtypes by DLPack and gives others. The text of its dtypes says nothing.
"""

from __future__ import annotations

import os
import time

import numpy as np

starts = 0


def start() -> None:
    global starts
    if "FAKE_PICKY_BROKEN" in os.environ:
        raise OSError("no licence")
    time.sleep(0.05)  # Other threads come here meanwhile, if they may.
    starts += 1


class DType:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return "float64"


_DTYPES = {name: DType(name) for name in ("uint8", "uint16", "int16", "float32")}
NOT_TAKEN, NOT_GIVEN = "uint16", "int16"


def dtype(name: str) -> DType:
    assert starts == 1, f"{starts} starts"
    return _DTYPES[name]


class Array:
    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    @property
    def dtype(self) -> DType:
        return dtype(self._data.dtype.name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    def numpy(self) -> np.ndarray:
        return self._data

    def part(self, order: int, key: tuple[int, int]) -> Array:
        assert (order, key) == (-1, (0, -1)), (order, key)
        return Array(self._data.copy())

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def __dlpack__(self, **options: object) -> object:
        if self._data.dtype == NOT_GIVEN:
            raise BufferError(f"{NOT_GIVEN} is not given")
        return self._data.__dlpack__(**options)


def from_dlpack(data: object, kind: DType) -> Array:
    array = np.from_dlpack(data)
    if array.dtype == NOT_TAKEN:
        raise BufferError(f"{NOT_TAKEN} is not taken")
    assert kind is dtype(array.dtype.name), kind
    return Array(array)


def array(data: np.ndarray) -> Array:
    return Array(data.copy())
