"""Read a DLPack capsule without any framework: its description and its values.

A consumer would trust a false description, so ``check`` reads the structure itself.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import ml_dtypes
import numpy

__all__ = ["Exported", "exported"]

HOST = (1, 3, 11, 13)
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


class _Unversioned(ctypes.Structure):
    _fields_ = [("tensor", _Tensor)]


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


class Exported(NamedTuple):
    """The address in a capsule, and a copy of its values; None if the memory is not the host's."""

    address: int
    values: numpy.ndarray | None


def exported(capsule: Any) -> Exported:
    """Read a capsule, which still belongs to the caller then."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    is_versioned = name(capsule) == b"dltensor_versioned"
    address = pointer(capsule, name(capsule))
    tensor = (_Versioned if is_versioned else _Unversioned).from_address(address).tensor
    first = (tensor.data or 0) + tensor.byte_offset
    return Exported(first, _values(tensor, first) if tensor.device_type in HOST else None)


def _values(tensor: _Tensor, first: int) -> numpy.ndarray:
    dtype = NAMES.get((tensor.code, tensor.bits))
    dtype = dtype or f"{PREFIXES.get(tensor.code, f'code{tensor.code}_')}{tensor.bits}"
    native, shape = dtype_of(dtype), tuple(tensor.shape[: tensor.ndim])
    if 0 in shape or not shape:
        size = native.itemsize * (0 not in shape)
        return numpy.frombuffer(ctypes.string_at(first, size), native).reshape(shape).copy()
    strides = list(numpy.empty(shape, native).strides)
    if tensor.strides:
        strides = [step * native.itemsize for step in tensor.strides[: tensor.ndim]]
    ends = [step * (size - 1) for step, size in zip(strides, shape, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    raw: Any = (ctypes.c_uint8 * (high - low + native.itemsize)).from_address(first + low)
    return numpy.ndarray(shape, native, raw, offset=-low, strides=strides).copy()
