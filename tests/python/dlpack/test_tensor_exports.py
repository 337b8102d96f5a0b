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


@pytest.mark.parametrize(
    ("version", "name"),
    [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
     ((1, 3), "dltensor_versioned"), ((2, 0), "dltensor_versioned")],
)  # fmt: skip
def test_the_capsule_is_as_new_as_the_consumer(version, name):
    capsule = ab.Tensor(IMAGE.copy()).__dlpack__(max_version=version)
    assert capsule_name(capsule) == name


def test_a_stream_is_refused_on_the_host():
    tensor = ab.Tensor(IMAGE.copy())
    for stream in (-1, 0, 1, 2):
        with pytest.raises(ValueError, match="stream"):
            tensor.__dlpack__(stream=stream)
    tensor.__dlpack__(stream=None)


def test_another_device_is_a_buffer_error():
    tensor = ab.Tensor(IMAGE.copy())
    assert tensor.__dlpack_device__() == (1, 0)
    tensor.__dlpack__(dl_device=(1, 0))
    for device in ((2, 0), (4, 0), (1, 1)):
        with pytest.raises(BufferError):
            tensor.__dlpack__(dl_device=device)


def test_only_keywords_are_taken():
    with pytest.raises(TypeError):
        ab.Tensor(IMAGE.copy()).__dlpack__(None)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_copy_is_fresh_and_no_copy_is_shared(version):
    tensor = ab.Tensor(IMAGE.copy())

    class Fixed:
        def __init__(self, copy):
            self.copy = copy

        def __dlpack__(self, **keywords):
            keywords.update(copy=self.copy, max_version=version)
            return tensor.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return tensor.__dlpack_device__()

    for copy in (True, False, None):
        array = np.from_dlpack(Fixed(copy))
        assert np.array_equal(array, IMAGE)
        assert np.shares_memory(array, np.asarray(tensor)) == (copy is not True)


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


def test_a_capsule_is_consumed_once():
    bridges.need("torch")
    import torch

    capsule = ab.Tensor(IMAGE.copy()).__dlpack__()
    torch.from_dlpack(capsule)
    assert capsule_name(capsule) == "used_dltensor"
    with pytest.raises((RuntimeError, BufferError, ValueError)):
        torch.from_dlpack(capsule)


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
