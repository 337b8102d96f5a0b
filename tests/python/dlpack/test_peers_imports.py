"""What the tests of other projects demand of imports: copies, read-only memory, producers.

Where a peer demands an error, any error meets the demand: classes and words differ between peers.
The producers here have DLPack's methods only, so that nothing else of them can be used.
"""

import ctypes

import arraybridge as ab
import bridges
import numpy as np
import pytest
from producers import Device, Exporter, Old, same

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


def test_read_only_memory_stays_so_and_old_producers_cannot_say():
    frozen = np.arange(5)
    frozen.flags.writeable = False
    with pytest.raises(BufferError):
        ab.Tensor(frozen).__dlpack__()
    new, old = np.arange(5), np.arange(5).view(Old)
    for given, writable in [(frozen, False), (new, True), (old, False)]:
        consumers = np.from_dlpack(ab.Tensor(Exporter(given))), ab.convert(Exporter(given), "numpy")
        for taken in consumers:
            assert taken.flags.writeable == writable


def test_copy_means_the_same_to_producer_and_consumer():
    bridges.need("torch")
    base = np.arange(5.0)
    for copy in (None, False, True):
        taken = [
            np.from_dlpack(ab.Tensor.from_dlpack(base, copy=copy)),
            np.from_dlpack(ab.Tensor.from_dlpack(Exporter(base), copy=copy)),
            np.from_dlpack(ab.Tensor(Exporter(base, copy=copy))),
            np.from_dlpack(Exporter(ab.Tensor(base), copy=copy)),
            np.from_dlpack(Exporter(ab.Tensor(base), copy=copy, max_version=None)),
            ab.convert(Exporter(base), "numpy", device="cpu", copy=copy),
            ab.convert(Exporter(base), "torch", device="cpu", copy=copy).numpy(),
        ]
        assert [np.shares_memory(array, base) for array in taken] == [copy is not True] * 7
        assert all(np.array_equal(array, base) for array in taken)


def test_an_export_that_says_that_it_is_a_copy_counts_as_one():
    base = np.arange(5.0)
    for take in (
        lambda copy: ab.convert(Exporter(base, copy=True), "numpy", copy=copy),
        lambda copy: np.from_dlpack(ab.Tensor.from_dlpack(Exporter(base, copy=True), copy=copy)),
    ):
        assert not np.shares_memory(take(None), base)
        with pytest.raises(ab.CopyRequiredError):
            take(False)
    with ab.trace() as records:
        one = ab.convert(Exporter(base, copy=True), "numpy", copy=True)
        ab.convert(Exporter(base, copy=True), "numpy")
    why = "the object exports a copy of its memory"
    assert [(r.route, r.why) for r in records] == [("copy", why)] * 2
    assert one.tolist() == base.tolist()
    with ab.no_copy(), pytest.raises(ab.CopyRequiredError, match=why):
        ab.convert(Exporter(base, copy=True), "numpy")


class Unified:
    """An array on a device that shares its memory with the host, and copies only when asked to."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        capsule = self.array.__dlpack__(max_version=max_version, copy=copy)
        if dl_device is None:
            # It is no CUDA memory, and is not read.
            raise BufferError("this device exports to the host only")
        return capsule

    def __dlpack_device__(self):
        return (Device.METAL, 0)


@pytest.mark.parametrize("copy", [None, True])
def test_a_download_from_a_device_that_shares_the_hosts_memory_is_a_copy(copy):
    base = np.arange(4.0)
    result = ab.convert(Unified(base), "numpy", copy=copy)
    assert not np.shares_memory(result, base)
    base[:] = 7
    assert result.tolist() == [0, 1, 2, 3]
    assert not np.shares_memory(np.asarray(ab.Tensor(Unified(base))), base)


@pytest.mark.parametrize("copy", [False, True, None])
@pytest.mark.parametrize("aligned", [False, True])
def test_jax_shares_what_is_aligned_and_is_never_given_what_is_not(copy, aligned):
    bridges.need("jax")
    for shape in ((4,), (3, 4), (2, 1, 4)):
        data = bridges.values("float32", shape)
        data = bridges.aligned(data, offset=0 if aligned else 2)
        if copy is False and not aligned:
            with pytest.raises(ab.CopyRequiredError):
                ab.convert(Exporter(data), "jax", copy=copy)
            continue
        taken = ab.convert(Exporter(data), "jax", copy=copy)
        assert same(taken, data)
        if copy is not None:
            assert (bridges.address("jax", taken) == data.ctypes.data) == (copy is False)


def test_a_producer_is_asked_where_its_memory_is_and_then_once_for_a_version():
    for take in (ab.Tensor, lambda x: ab.convert(x, "numpy")):
        producer = Exporter(np.arange(3))
        take(producer)
        device, keywords = producer.asked
        assert device == "device" and keywords == {"max_version": (1, 3)}


def test_a_producer_without_arguments_is_asked_without_any():
    class Plain(Exporter):
        def __dlpack__(self):
            return self.array.__dlpack__()

    for producer in (Plain(np.arange(3.0)), Exporter(np.arange(3.0).view(Old))):
        assert np.from_dlpack(ab.Tensor(producer)).tolist() == [0, 1, 2]


def test_a_producer_without_a_place_for_its_memory_is_refused():
    class Elsewhere(Exporter):
        def __init__(self, device):
            super().__init__(np.arange(3.0))
            self.device = device

        def __dlpack_device__(self):
            return self.device

    for producer in ({}, Elsewhere((2, -1)), Elsewhere((2, 0)), Elsewhere(None), Elsewhere((1,))):
        with pytest.raises(ab.UnsupportedArrayError):
            ab.Tensor(producer)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_was_taken_is_refused(version):
    capsule = np.arange(3.0).__dlpack__(max_version=version)

    class Same(Exporter):
        def __dlpack__(self, **_):
            return capsule

    assert np.from_dlpack(ab.Tensor(Same(np.arange(3.0)))).tolist() == [0, 1, 2]
    with pytest.raises(ab.UnsupportedArrayError, match="used_dltensor"):
        ab.Tensor(Same(np.arange(3.0)))
    is_named = ctypes.pythonapi.PyCapsule_IsValid
    is_named.argtypes = [ctypes.py_object, ctypes.c_char_p]
    assert is_named(capsule, b"used_dltensor_versioned" if version else b"used_dltensor")
