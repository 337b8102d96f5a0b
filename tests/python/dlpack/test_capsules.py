"""Capsules from producers that break the rules: an error, never a crash, and freed exactly once.

The producer poses as a JAX array, so that its capsule is what the conversion reads. Extents and
strides that lie about the memory behind them cannot be told from true ones, so the memory here is
large enough for whatever the descriptor may say.
"""

import ctypes
import sys

import arraybridge as ab
import bridges
import numpy as np
import pytest
from ctable import DELETER, Device, DLTensor, DType, Legacy, Managed, Version, new_capsule
from hypothesis import given, settings
from hypothesis import strategies as st

MEMORY = np.zeros(1 << 16, "uint8")


class Producer:
    """Poses as a JAX array and hands out whatever capsule it was made with."""

    def __init__(self, dtype, managed, name):
        self.dtype, self.managed, self.name = dtype, managed, name
        self.exports = 0

    def __dlpack__(self, **_):
        self.exports += 1
        return new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return (1, 0)


Producer.__module__, Producer.__qualname__ = "jaxlib._jax", "ArrayImpl"

small = st.integers(0, 4)
wild = st.sampled_from([-(2**63), -(2**31), -1, 2**31, 2**62, 2**63 - 1])


@st.composite
def descriptors(draw):
    ndim = draw(st.one_of(small, st.sampled_from([-1, -(2**31), 2**31 - 1, 65, 1000])))
    axes = min(max(ndim, 0), 8)
    shape = [draw(st.one_of(small, small, wild)) for _ in range(axes)]
    strides = [draw(st.one_of(small, wild)) for _ in range(axes)]
    return {
        "ndim": ndim,
        "shape": None if ndim > 8 else draw(st.sampled_from([shape, shape, None])),
        "strides": None if ndim > 8 else draw(st.sampled_from([strides, None])),
        "data": draw(st.sampled_from([True, True, True, False])),
        "code": draw(st.one_of(st.just(2), st.integers(0, 255))),
        "bits": draw(st.one_of(st.just(32), st.integers(0, 255))),
        "lanes": draw(st.sampled_from([1, 1, 1, 0, 2, 65535])),
        "device": draw(st.sampled_from([1, 1, 1, 2, 4, 13, 99, -1])),
        "byte_offset": draw(st.sampled_from([0, 0, 64, 2**63])),
        "versioned": draw(st.booleans()),
        "major": draw(st.sampled_from([1, 1, 1, 0, 2, 2**32 - 1])),
        "deleter": draw(st.sampled_from([True, True, False])),
    }


def reaches_beyond(d):
    """Whether a reader that believes the descriptor leaves the memory: that no check can see."""
    if d["byte_offset"] > 64:
        return True
    if d["ndim"] <= 0 or d["shape"] is None or 0 in d["shape"] or min(d["shape"]) < 0:
        return False
    size = max(d["bits"] // 8, 1) * d["lanes"]
    if d["strides"] is None:
        return int(np.prod([float(n) for n in d["shape"]])) * size > MEMORY.size // 2
    reach = [(n - 1) * s * size for n, s in zip(d["shape"], d["strides"], strict=True)]
    return any(r < 0 for r in reach) or sum(reach) > MEMORY.size // 2


@settings(max_examples=600, deadline=None)
@given(descriptors())
def test_a_capsule_that_breaks_the_rules_is_an_error_and_is_freed_once(d):
    bridges.need("jax")
    if reaches_beyond(d):
        return
    freed = []
    deleter = DELETER(lambda pointer: freed.append(pointer))
    managed = Managed(Version(d["major"], 0)) if d["versioned"] else Legacy()
    if d["deleter"]:
        managed.deleter = deleter
    extents = {}
    for key in ("shape", "strides"):
        if d[key] is not None:
            extents[key] = (ctypes.c_int64 * max(len(d[key]), 1))(*d[key])
            setattr(managed.tensor, key, extents[key])
    tensor = managed.tensor
    tensor.ndim, tensor.device.type = d["ndim"], d["device"]
    tensor.dtype = DType(d["code"], d["bits"], d["lanes"])
    tensor.byte_offset = d["byte_offset"]
    if d["data"]:
        tensor.data = MEMORY.ctypes.data + 64
    name = b"dltensor_versioned" if d["versioned"] else b"dltensor"
    producer = Producer(np.dtype("float32"), managed, name)
    try:
        result = ab.convert(producer, "numpy")
    except (ab.MemoryConversionError, MemoryError):
        result = None
    else:
        assert result.dtype == np.float32 and not result.flags.writeable
        assert not freed or result.size == 0
    del result
    assert producer.exports == 1
    assert len(freed) == (1 if d["deleter"] else 0)


class Liar:
    """An object of no framework whose capsule is of another device than it says."""

    def __init__(self, says, is_on):
        self.says, self.is_on = says, is_on
        self.extents = (ctypes.c_int64 * 1)(4), (ctypes.c_int64 * 1)(1)
        # Nothing is there: to read it ends the process.
        self.managed = Legacy(DLTensor(4096, Device(*is_on), 1, DType(2, 32, 1), *self.extents, 0))

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self.says


@pytest.mark.parametrize(
    ("says", "is_on"), [((1, 0), (2, 0)), ((1, 0), (4, 1)), ((4, 0), (4, 0)), ((8, 0), (8, 0))]
)
def test_memory_of_a_device_is_never_read_as_the_hosts(torch, jax, says, is_on):
    # The last two leave out that a copy on the host was asked for.
    for target in ("numpy", "torch", "jax"):
        with pytest.raises(ab.UnsupportedArrayError, match="Liar.*its capsule is of memory on acc"):
            ab.convert(Liar(says, is_on), target)
    with pytest.raises(ab.UnsupportedArrayError, match="its capsule is of memory on acc"):
        ab.Tensor(Liar(says, is_on))


@pytest.mark.parametrize("is_on", [(4, 0), (7, 0), (10, 0), (15, 0), (99, 0)])
def test_memory_that_is_not_cudas_is_never_taken_for_it(is_on):
    # A view of CUDA memory would hand its address to kernels.
    with pytest.raises(ab.UnsupportedArrayError, match=f"DLPack type {is_on[0]}, and not 2"):
        ab.Tensor(Liar((2, 0), is_on))


@pytest.mark.parametrize("byte_offset", [0, 4096])
def test_an_offset_does_not_make_data_of_a_null_pointer(byte_offset):
    x = Liar((1, 0), (1, 0))
    x.managed.tensor.data, x.managed.tensor.byte_offset = None, byte_offset
    for use in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        with pytest.raises(ab.UnsupportedArrayError, match="has elements but no data"):
            use(x)


def test_a_deleter_that_raises_leaves_no_exception_behind(monkeypatch):
    # ctypes reports what its callbacks raise.
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: raised.append(report.exc_type))

    def free(_):
        raise ZeroDivisionError

    x, deleter = Liar((1, 0), (1, 0)), DELETER(free)
    x.managed.tensor.data = MEMORY.ctypes.data
    x.managed.deleter = deleter
    assert ab.convert(x, "numpy", copy=True).tolist() == [0] * 4
    assert raised == [ZeroDivisionError]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("where", ["__dlpack__", "__dlpack_device__"])
def test_what_is_no_fault_of_an_export_is_raised_as_it_is(kind, where):
    def interrupted(self, **_):
        raise kind("stop")

    x = type("Interrupted", (Liar,), {where: interrupted})((1, 0), (1, 0))
    for use in (
        lambda: ab.convert(x, "numpy"),
        lambda: ab.explain(x, "numpy"),
        lambda: ab.Tensor(x),
    ):
        with pytest.raises(kind, match="stop"):
            use()


def test_the_error_of_another_object_than_a_capsule_does_not_show_its_elements():
    class Wrong:
        def __dlpack__(self, **options):
            return np.array([123456789])

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(ab.MemoryConversionError, match="class ndarray") as caught:
        ab.convert(Wrong(), "torch")
    assert "123456789" not in str(caught.value)
