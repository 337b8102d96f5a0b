"""What the tests of other projects demand of dtypes and layouts, to every library and back.

Where a peer demands an error, any error meets the demand: classes and words differ between peers.
The producers here have DLPack's methods only, so that nothing else of them can be used.
"""

import arraybridge as ab
import bridges
import ml_dtypes
import numpy as np
import pytest
from producers import Exporter, Old, importers, same

pytestmark = pytest.mark.filterwarnings("ignore::arraybridge.SharedImmutableMemoryWarning")


@pytest.mark.parametrize("dtype", (*bridges.STANDARD, "bfloat16"))
def test_every_dtype_passes_through_in_both_directions(dtype):
    data = bridges.values(dtype, (5,))
    with bridges.x64(True):
        for name, take in importers().items():
            if name == "numpy" and dtype == "bfloat16":
                continue
            taken = take(ab.Tensor(data))
            assert same(taken, data), name
            # TensorFlow's tensors have no such methods, and NumPy exports no bfloat16.
            if name != "tensorflow" and (name, dtype) != ("Tensor", "bfloat16"):
                assert same(ab.convert(ab.Tensor(Exporter(taken)), "numpy"), data), name
    if dtype != "bfloat16":
        assert same(ab.convert(ab.Tensor(Exporter(data.view(Old))), "numpy"), data)


VIEWS = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, 0],
    "part of a row": lambda x: x[1, 1:4],
    "transposed": lambda x: x.T,
    "steps": lambda x: x[::2, ::2],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex64"])
def test_every_view_arrives_in_every_library(view, dtype):
    data = VIEWS[view](np.arange(25).reshape(5, 5).astype(dtype))
    for name in bridges.INSTALLED:
        if bridges.has_dtype(name, dtype):
            assert same(ab.convert(Exporter(data), name), data), name
    for name in {"numpy", "torch"} & importers().keys():
        assert same(importers()[name](ab.Tensor(data)), data), name


@pytest.mark.parametrize("ndim", [*range(6), 31, 32, 33, 64])
def test_every_rank_of_numpy_arrives(ndim):
    data = np.full((1,) * ndim, 3.5)
    for given in (data, Exporter(data)):
        taken = np.from_dlpack(ab.Tensor(given))
        assert taken.shape == data.shape and taken.ravel().tolist() == [3.5]


def test_strides_of_axes_with_one_element_do_not_matter_and_stay():
    bridges.need("torch")
    odd = np.ndarray((10, 5, 1), "f8", np.arange(400, dtype="uint8"), strides=(8, 80, 4))
    tensor = ab.Tensor.from_dlpack(odd, copy=False)
    assert np.array_equal(np.from_dlpack(tensor), odd, equal_nan=True)
    one = np.arange(16.0)[::3][:1]
    assert ab.Tensor(one).strides == one.strides == (24,)
    assert importers()["torch"](ab.Tensor(one)).stride() == (3,)


def test_bfloat16_is_that_of_ml_dtypes_whoever_brings_it():
    data = bridges.values("bfloat16", (3,))
    for name in ("jax", "tensorflow", "torch"):
        if name in bridges.INSTALLED:
            seen = np.asarray(ab.Tensor(bridges.make(name, data)))
            assert seen.dtype == np.dtype(ml_dtypes.bfloat16)
