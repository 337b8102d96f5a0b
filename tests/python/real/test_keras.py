"""Variables of Keras belong to the framework of its backend, each in a process of its own."""

import bridges
import pytest

pytest.importorskip("keras")


def environment(backend):
    return {"KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}


def framework(backend):
    return [backend] * (backend != "numpy")


PROGRAM = """
import sys
import keras, numpy as np, arraybridge as ab

backend = keras.backend.backend()
before = "tensorflow" in sys.modules
x = keras.Variable(np.array([1, 2], "float32"))
assert ab.detect_memory_type(x) == backend, ab.detect_memory_type(x)
assert np.asarray(ab.convert(x, "numpy")).tolist() == [1, 2]  # NumPy keeps its own variable.
value = getattr(ab, backend)(lambda x: x * 2, output_type="numpy")(x)
assert np.asarray(value).tolist() == [2, 4]
assert ("tensorflow" in sys.modules) == before
"""


# As from Keras 3.16 on, where the variables of all backends have one name.
RENAMED = """
import keras

for base in keras.Variable.__mro__:
    if base.__module__.startswith("keras.src.backend.") and "common" not in base.__module__:
        base.__module__, base.__qualname__ = "keras.src.backend", "Variable"
"""


@pytest.mark.parametrize("before", ["", RENAMED], ids=["named", "renamed"])
@pytest.mark.parametrize("backend", ("torch", "jax", "tensorflow", "numpy"))
def test_a_variable_belongs_to_its_backend(backend, before):
    bridges.survives(before + PROGRAM, env=environment(backend), loaded=framework(backend))


PLACEHOLDER = """
import sys
import keras, numpy as np, arraybridge as ab

backend = keras.backend.backend()
x = keras.Input((2, 3))
for call in (lambda x: ab.convert(x, "numpy"), ab.detect_memory_type, ab.Tensor):
    try:
        print(call(x))
    except ab.MemoryConversionError as error:
        assert "KerasTensor" in str(error) and "it has no values yet" in str(error), error
        assert "TensorFlow array" not in str(error), error
    else:
        sys.exit("it was taken for an array")
# A model that is built goes through.
model = keras.Model(x, getattr(ab, backend)(lambda x: keras.ops.relu(x))(x))
assert np.asarray(ab.convert(model(np.full((1, 2, 3), -1.0)), "numpy")).tolist() == [[[0] * 3] * 2]
"""


@pytest.mark.parametrize("backend", ("torch", "jax", "tensorflow", "numpy"))
def test_a_placeholder_belongs_to_no_framework(backend):
    bridges.survives(PLACEHOLDER, env=environment(backend), loaded=framework(backend))


FIT = """
import sys
import bridges
bridges.load("torch", "jax", "numpy", *{"tensorflow"} & {sys.argv[1]})
import keras, numpy as np, arraybridge as ab

backend = keras.backend.backend()


def tanh(name):
    import importlib

    module = importlib.import_module({"jax": "jax.numpy"}.get(name, name))
    return lambda x: module.tanh(x) * 2


own = getattr(ab, backend)(tanh(backend))
other = "torch" if backend != "torch" else "jax"
across = getattr(ab, other)(differentiable=True)(tanh(other))
by_hand = ab.numpy(output_type="input")(tanh("numpy"))
by_hand.defvjp(
    lambda x: (by_hand(x), x),
    lambda x, gradient: gradient * 2 * (1 - np.tanh(x) ** 2),
    result=lambda x: x,
)


class Layer(keras.layers.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)

    def compute_output_shape(self, shape):
        return shape


rng = np.random.default_rng(0)
X = rng.normal(size=(32, 4)).astype("float32")
Y = X.sum(1, keepdims=True)


def losses(function):
    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,)), keras.layers.Dense(8), Layer(function), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    # Keras compiles with PyTorch's inductor, which takes a minute. test_graphs.py has that case.
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile="auto")
    return model.fit(X, Y, epochs=2, batch_size=16, shuffle=False, verbose=0).history["loss"]


expected = losses(lambda x: keras.ops.tanh(x) * 2)
for function in (own, across, by_hand):
    np.testing.assert_allclose(losses(function), expected, rtol=1e-4)
"""


@pytest.mark.parametrize("backend", ("torch", "jax", "tensorflow"))
def test_a_declared_function_is_a_layer_that_is_trained(torch, jax, backend):
    bridges.survives(FIT, backend, env=environment(backend))
