"""The lead: the array that gives the result its dtype."""

import arraybridge as ab
import numpy as np
import pytest

IMAGE = np.arange(6, dtype="uint8").reshape(2, 3)
KERNEL = np.ones((2, 2), "float32")


NOT_IMAGES = {
    "str": np.array(["a", "b"]),
    "object": np.array([1, None], dtype=object),
    "datetime": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "records": np.zeros(2, dtype=[("a", "f4")]),
    "parameters": {"w": KERNEL, "layers": [KERNEL]},
    "nested parameters": {"layer": {"w": KERNEL}},
}


@pytest.mark.parametrize("first", NOT_IMAGES.values(), ids=NOT_IMAGES)
def test_it_is_the_first_array_that_can_be_an_image(first):
    f = ab.numpy(arrays=("image",), dtype_conversion="preserve")(lambda first, image: image / 2)
    assert f(first, IMAGE).dtype == "uint8"
    f = ab.numpy(lambda first, image: image / 2, dtype_conversion="preserve")
    if isinstance(first, dict) or first.dtype.kind in "UOMV":
        assert f(first, IMAGE).dtype == "uint8"


@pytest.mark.parametrize("typed", (True, False))
def test_a_random_key_is_not_the_lead(jax, typed):
    key = jax.random.key(0) if typed else jax.random.PRNGKey(0)
    x = jax.numpy.ones((2, 3), "float16")

    @ab.jax(dtype_conversion="preserve")
    def noisy(key, x):
        return x.astype("float32") + jax.random.normal(key, x.shape)

    assert noisy(key, x).dtype == "float16"


def test_the_declaration_can_name_it_and_the_trace_shows_it():
    f = ab.numpy(lambda a, b: a * b, lead="b", dtype_conversion="preserve")
    one = np.ones((2, 3), "float32")
    trace = ab.trace()
    with trace:
        assert f(one, IMAGE).dtype == "uint8"
    assert trace.spans[0].via == "the lead is 'b' (numpy uint8), not 'a' (numpy float32)"
    g = ab.numpy(lambda a, b: a * b, dtype_conversion="preserve")
    trace = ab.trace()
    with trace:
        assert g(one, one).dtype == "float32"
    assert trace.spans[0].via == ""
    with pytest.raises(ValueError, match='lead names "c"'):
        ab.numpy(lambda a: a, lead="c")
