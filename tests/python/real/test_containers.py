"""Arrays in containers of other libraries, at any depth."""

import collections
import functools
import types

import arraybridge as ab
import numpy as np
import pytest

attrs = pytest.importorskip("attrs")
ONES = np.ones((2, 3), "float32")


def output(**fields):
    """Return an output of a model: a dataclass whose fields are items of a dict too."""
    return pytest.importorskip("transformers.modeling_outputs").CausalLMOutput(**fields)


@attrs.define(frozen=True)
class Frozen:
    image: object
    name: str = "a"


@attrs.define
class Slotted:
    image: object


Point = collections.namedtuple("Point", "x y")

CONTAINERS = {
    "OrderedDict": (lambda x: collections.OrderedDict(b=1, a=x), lambda c: c["a"]),
    "defaultdict": (lambda x: collections.defaultdict(list, a=x), lambda c: c["a"]),
    "UserDict": (lambda x: collections.UserDict(a=x), lambda c: c["a"]),
    "mappingproxy": (lambda x: types.MappingProxyType({"a": x}), lambda c: c["a"]),
    "attrs frozen": (Frozen, lambda c: c.image),
    "attrs slots": (Slotted, lambda c: c.image),
    "nested": (lambda x: [({"a": [Point(1, x)]},)], lambda c: c[0][0]["a"][0].y),
    "output of a model in a list": (lambda x: [output(logits=x)], lambda c: c[0].logits),
    "64 levels": (
        lambda x: functools.reduce(lambda c, _: [c], range(64), x),
        lambda c: functools.reduce(lambda c, _: c[0], range(64), c),
    ),
}


@pytest.mark.parametrize(("make", "get"), CONTAINERS.values(), ids=CONTAINERS)
def test_what_it_holds_is_converted(torch, make, get):
    container = make(ONES)
    seen = []
    ab.torch(lambda x: seen.append(x))(container)
    ab.torch(lambda x: seen.append(x))(x=container)
    for found in seen:
        assert type(found) is type(container)
        assert isinstance(get(found), torch.Tensor) and get(found).shape == (2, 3)
    assert get(container) is ONES


def test_items_and_attributes_of_a_model_output_are_the_same_arrays(torch):
    made = output(logits=ONES, hidden_states=(ONES, ONES * 2))
    found = ab.torch(lambda output: output, dtype_conversion="native")(made)
    assert type(found) is type(made) and isinstance(found.logits, torch.Tensor)
    assert found["logits"] is found.logits and found["hidden_states"] is found.hidden_states
    assert all(isinstance(state, torch.Tensor) for state in found.hidden_states)
    assert list(found) == ["logits", "hidden_states"] and found.loss is None
    assert made["logits"] is ONES


def test_the_same_array_twice_stays_the_same_array(torch):
    frame = pytest.importorskip("pandas").DataFrame(ONES)
    same = ab.torch(dtype_conversion="native")(lambda x, y, c, *, d: x is y is c["a"][0] is d)
    for data in (ONES, ONES[:, ::-1], ab.convert(ONES, "numpy", copy=True), frame):
        assert same(data, data, {"a": [data]}, d=data)


def test_a_container_that_contains_itself_ends():
    loop = [ONES]
    loop.append(loop)
    assert ab.numpy(lambda c: len(c))(loop) == 2


def test_more_levels_than_64_are_an_error_that_names_the_argument():
    deep = ONES
    for _ in range(65):
        deep = [deep]
    with pytest.raises(TypeError, match=r"argument 'params': .* 64 levels"):
        ab.numpy(lambda params: None)(deep)
