"""Tensor as a producer of DLPack: what it is asked for, and how long its memory lives."""

import weakref

import arraybridge as ab
import bridges
import numpy as np
import pytest
from producers import Owner, capsule_name, settle

HOST = ("numpy", "torch", "jax", "tensorflow")
IMAGE = np.arange(24, dtype="float32").reshape(4, 6)
pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


def test_only_keywords_are_taken():
    with pytest.raises(TypeError):
        ab.Tensor(IMAGE.copy()).__dlpack__(None)


def test_read_only_memory_says_so_or_is_refused():
    array = IMAGE.copy()
    array.flags.writeable = False
    tensor = ab.Tensor(array)
    assert not np.from_dlpack(tensor).flags.writeable
    assert not np.asarray(tensor).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert capsule_name(tensor.__dlpack__(copy=True)) == "dltensor"
    assert np.from_dlpack(ab.Tensor(IMAGE.copy())).flags.writeable


def test_immutable_arrays_stay_read_only():
    for framework in ("jax", "tensorflow"):
        bridges.need(framework)
        assert not np.from_dlpack(ab.Tensor(bridges.make(framework, IMAGE))).flags.writeable


def test_memory_lives_until_the_last_consumer_is_gone():
    bridges.need("torch")
    import torch

    gone = []
    base = IMAGE.copy().view(Owner)
    weakref.finalize(base, gone.append, True)
    tensor = ab.Tensor(base)
    consumers = [torch.from_dlpack(tensor), np.from_dlpack(tensor), np.asarray(tensor)]
    unused = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))]
    del base, tensor
    settle()
    assert not gone
    del unused
    while consumers:
        settle()
        assert not gone
        assert np.array_equal(np.asarray(consumers.pop()), IMAGE)
    settle()
    assert gone == [True]


def test_a_thousand_tensors_leave_nothing():
    base = IMAGE.copy().view(Owner)
    gone = []
    weakref.finalize(base, gone.append, True)
    for _ in range(1000):
        tensor = ab.Tensor(base)
        np.from_dlpack(tensor)
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=(1, 0), copy=True)
        ab.Tensor(tensor)
    del base, tensor
    settle()
    assert gone == [True]
