"""Arrays that are not plain are converted correctly or refused by name. Values are never wrong.

Those of one framework are in the other files of this name. Here are the rules for several.
"""

import arraybridge as ab
import bridges
import numpy as np
import pytest
from special import others

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (), (0, 3)], ids=str)
def test_pyclesperanto_refuses_shapes_that_it_does_not_have(shape):
    bridges.need("pyclesperanto")
    for source in others("pyclesperanto"):
        x = bridges.make(source, np.ones(shape, "float32"))
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.convert(x, "pyclesperanto")
        assert bridges.names("pyclesperanto", str(caught.value))


def test_pyclesperanto_gets_no_silent_32_bit_copy():
    bridges.need("pyclesperanto")
    with bridges.x64(True):
        for source in others("pyclesperanto"):
            for dtype in ("int64", "uint64", "float64", "bool", "complex64", "float16"):
                x = bridges.make(source, np.ones((2, 2), dtype))
                with pytest.raises(ab.UnsupportedDtypeError) as caught:
                    ab.convert(x, "pyclesperanto")
                assert dtype in str(caught.value)


class Exporter:
    """An object of no framework that exports a NumPy array by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_foreign_exporter_arrives():
    x = np.arange(3, dtype="float32")
    for target in bridges.INSTALLED:
        for copy in (None, True):
            result = ab.convert(Exporter(x), target, copy=copy)
            assert bridges.difference(target, result, x) is None


def test_what_an_error_says_to_call_first_makes_an_array(torch):
    bridges.need("tensorflow", "jax")
    import jax
    import tensorflow as tf

    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, words, call in (
        (np.ma.masked_array([1, 2], [False, True]), "filled()", lambda x: x.filled()),
        (torch.eye(2).to_sparse(), "to_dense()", lambda x: x.to_dense()),
        (torch.eye(2).to_mkldnn(), "to_dense()", lambda x: x.to_dense()),
        (quantized, "dequantize()", lambda x: x.dequantize()),
        (nested, "to_padded_tensor(0.0)", lambda x: x.to_padded_tensor(0.0)),
        (tf.ragged.constant([[1, 2], [3]]), "to_tensor()", lambda x: x.to_tensor()),
        (tf.sparse.from_dense([[1.0]]), "tensorflow.sparse.to_dense", tf.sparse.to_dense),
        (tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])),
         "tensorflow.convert_to_tensor", tf.convert_to_tensor),
        (jax.random.key(0), "jax.random.key_data", jax.random.key_data),
    ):  # fmt: skip
        target = "torch" if isinstance(x, np.ndarray) else "numpy"
        with pytest.raises(ab.UnsupportedArrayError) as caught:
            ab.convert(x, target)
        assert f"(call {words} first)" in str(caught.value)
        assert ab.detect_memory_type(ab.convert(call(x), target)) == target
