"""Objects that hold arrays and are none: the error says how to get at the array, and that works."""

import re

import arraybridge as ab
import bridges
import numpy as np
import pytest

VALUES = np.arange(6, dtype="float32").reshape(2, 3)


def sparse():
    return pytest.importorskip("scipy.sparse").csr_array(VALUES)


def matrix():
    return pytest.importorskip("cv2").UMat(VALUES)


def frame():
    return pytest.importorskip("polars").DataFrame(VALUES).lazy()


@pytest.mark.parametrize(
    ("make", "text", "way"),
    [
        (sparse, "call toarray() first", lambda x: x.toarray()),
        (matrix, "call get() first", lambda x: x.get()),
        (frame, "call collect() first", lambda x: x.collect()),
        (lambda: bytearray(24), "memoryview(..)", lambda x: memoryview(x).cast("f")),
    ],
)
def test_the_way_out_leads_out(make, text, way):
    value = make()
    with pytest.raises(ab.UnsupportedArrayError, match=re.escape(text)):
        ab.convert(value, "numpy")
    expected = np.zeros(6, "float32") if isinstance(value, bytearray) else VALUES
    assert np.array_equal(ab.convert(way(value), "numpy"), expected)


def test_a_masked_tensor_says_how(torch):
    masked = torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True]))
    with pytest.raises(ab.UnsupportedArrayError, match=r"call to_tensor\(\.\.\) first"):
        ab.convert(masked, "numpy")
    assert ab.convert(masked.to_tensor(0.0), "numpy").tolist() == [1, 0, 1]


@bridges.alone
def test_a_distributed_tensor_says_how(torch):
    from torch import distributed
    from torch.distributed.tensor import Replicate, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    mesh = distributed.init_device_mesh("cpu", (1,))
    tensor = distribute_tensor(torch.ones(3), mesh, [Replicate()])
    for call in (lambda: ab.convert(tensor, "numpy"), lambda: ab.numpy(lambda x: x)(tensor)):
        try:
            call()
        except ab.UnsupportedArrayError as error:
            assert "distributed (call to_local() or full_tensor() first)" in str(error), error
        else:
            raise SystemExit("it was not refused")
    for way in (tensor.to_local(), tensor.full_tensor()):
        assert ab.convert(way, "numpy").tolist() == [1, 1, 1]
    distributed.destroy_process_group()
