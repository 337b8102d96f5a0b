"""TensorFlow's tensors that are not plain are converted correctly or refused by name."""

import time

import arraybridge as ab
import bridges
import numpy as np
import pytest
from special import CASTS, arrives, refused

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_value_of_a_variable_does_not_change_with_it(tf):
    x = tf.Variable([1.0, 2.0])
    y = ab.convert(x, "numpy")
    x.assign_add([1.0, 1.0])
    assert y.tolist() == [1.0, 2.0]
    assert ab.convert(x, "numpy").tolist() == [2.0, 3.0]


def test_a_keras_variable_gives_its_value(tf):
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "tensorflow":
        pytest.skip(f"Keras runs on {keras.backend.backend()}")
    x = keras.Variable(np.array([1, 2], "float32"))
    arrives(x, "tensorflow", np.array([1, 2], "float32"))


def test_a_symbolic_tensor_is_refused(tf):
    seen = []

    @tf.function(autograph=False)
    def inside(x):
        refused(x, "tensorflow", "symbolic")
        assert ab.convert(x, "tensorflow") is x
        seen.append(True)
        return x

    inside(tf.ones(3))
    assert seen


def test_a_symbolic_tensor_is_cast_by_its_framework(tf):
    x = tf.constant([-3.0, 0.5, 2.5, 300.0, np.nan])
    for dtype in CASTS:
        inside = tf.function(lambda x, dtype=dtype: ab.convert(x, "tensorflow", dtype=dtype))
        y, expected = inside(x), ab.convert(x, "tensorflow", dtype=dtype)
        assert y.dtype == expected.dtype
        assert y.numpy().tobytes() == expected.numpy().tobytes(), dtype
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def of_unknown_shape(x):
        seen.append(ab.explain(x, "tensorflow", dtype="uint8"))
        return ab.convert(x, "tensorflow", dtype="uint8")

    assert of_unknown_shape(tf.ones((2, 3))).shape == (2, 3)
    assert (seen[0].shape, seen[0].nbytes) == ((), 0)
    # TensorFlow has no cast of these.
    for given in (tf.constant([1, 2, 255], "uint8"), tf.constant([True, False])):
        y = tf.function(lambda x: ab.convert(x, "tensorflow", dtype="float8_e5m2"))(given)
        expected = ab.convert(given, "tensorflow", dtype="float8_e5m2")
        assert y.numpy().tobytes() == expected.numpy().tobytes()


def test_a_sparse_or_ragged_tensor_is_not_cast_either(tf):
    for x in (
        tf.sparse.from_dense([[1.0, 0.0]]),
        tf.ragged.constant([[0.5, 300.0], [2.5]]),
        tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([1, 2])),
    ):
        for dtype in ("uint8", "float16"):
            for call in (ab.convert, ab.explain):
                with pytest.raises(ab.UnsupportedArrayError, match="sparse|ragged"):
                    call(x, "tensorflow", dtype=dtype)


class Variable:
    """A fake Keras variable. The test determines its value."""

    def __init__(self, give):
        self.give = give

    @property
    def value(self):
        return self.give(self)


Variable.__module__ = "keras.src.backend.common.variables"
# A table knows the first class. Of the second, it knows a base.
Derived = type("Derived", (Variable,), {})


def test_a_variable_that_is_its_own_value_is_refused():
    bridges.need("tensorflow")
    for make in (Variable, Derived):
        for x in (make(lambda self: self), make(lambda self: type(self)(self.give))):
            refused(x, "tensorflow", "wrapped")


def test_a_variable_in_a_variable_arrives():
    bridges.need("tensorflow")
    x = Variable(lambda _: Variable(lambda _: bridges.make("tensorflow", np.arange(6, dtype="f4"))))
    arrives(x, "tensorflow", np.arange(6, dtype="float32"))
    copied = ab.convert(x, "tensorflow", copy=True)
    assert bridges.difference("tensorflow", copied, np.arange(6, dtype="float32")) is None


def test_an_interrupt_in_a_variable_is_raised_unchanged():
    bridges.need("tensorflow")

    def interrupted(_):
        raise KeyboardInterrupt

    for make in (Variable, Derived):
        for copy in (None, True):
            with pytest.raises(KeyboardInterrupt):
                ab.convert(make(interrupted), "numpy", copy=copy)


def test_an_interrupt_while_a_class_is_looked_up_is_not_lost():
    calls = []

    def interrupted_once(_):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return np.arange(3)

    unseen = type("Derived", (Variable,), {})
    with pytest.raises(KeyboardInterrupt):
        ab.convert(unseen(interrupted_once), "numpy", copy=True)
        time.sleep(0.1)  # Python raises a deferred interrupt at its next step.
