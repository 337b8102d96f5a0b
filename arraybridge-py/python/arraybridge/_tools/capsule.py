"""Read a DLPack capsule without any framework: its description and its values.

A consumer would trust a false description, so ``check`` reads the structure itself.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy

__all__ = ["Exported", "exported"]

HOST = (1, 3, 11, 13)
READ_ONLY = 1
# The codes of DLPack and the prefix of the names that go with them; other codes are one dtype each.
PREFIXES = {0: "int", 1: "uint", 2: "float", 5: "complex"}
NAMES = {
    (4, 16): "bfloat16", (6, 8): "bool", (7, 8): "float8_e3m4", (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu",
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def dtype_of(name: str) -> numpy.dtype:
    """NumPy's dtype of a name, with those of ml_dtypes."""
    return numpy.dtype(getattr(ml_dtypes, name, name))


@dataclass
class Exported:
    """The content of a capsule. ``values`` is a copy; None if the memory is not the host's."""

    dtype: str
    shape: tuple[int, ...]
    device: tuple[int, int]
    address: int
    read_only: bool | None
    values: numpy.ndarray | None


def exported(capsule: Any) -> Exported:
    """Read a capsule, which still belongs to the caller then."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address, read_only = pointer(capsule, name(capsule)), None
    if name(capsule) == b"dltensor_versioned":
        versioned = _Versioned.from_address(address)
        tensor, read_only = versioned.tensor, bool(versioned.flags & READ_ONLY)
    else:
        tensor = _Tensor.from_address(address)
    dtype = NAMES.get((tensor.code, tensor.bits))
    dtype = dtype or f"{PREFIXES.get(tensor.code, f'code{tensor.code}_')}{tensor.bits}"
    shape = tuple(tensor.shape[: tensor.ndim])
    first = (tensor.data or 0) + tensor.byte_offset
    device = (tensor.device_type, tensor.device_id)
    values = _values(tensor, dtype, shape, first) if tensor.device_type in HOST else None
    return Exported(dtype, shape, device, first, read_only, values)


def _values(tensor: _Tensor, dtype: str, shape: tuple[int, ...], first: int) -> numpy.ndarray:
    native = dtype_of(dtype)
    if 0 in shape or not shape:
        size = native.itemsize * (0 not in shape)
        return numpy.frombuffer(ctypes.string_at(first, size), native).reshape(shape).copy()
    strides = (
        [step * native.itemsize for step in tensor.strides[: tensor.ndim]]
        if (tensor.strides)
        else list(numpy.empty(shape, native).strides)
    )
    ends = [step * (size - 1) for step, size in zip(strides, shape, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    raw: Any = (ctypes.c_uint8 * (high - low + native.itemsize)).from_address(first + low)
    return numpy.ndarray(shape, native, raw, offset=-low, strides=strides).copy()
