"""Trees of arrays and containers as arguments, and the nodes that libraries register."""

import collections
import dataclasses
import functools
import pickle
import sys
import types
from html import escape

import arraybridge as ab
import bridges
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
attrs = pytest.importorskip("attrs")

ONES = np.ones((2, 3), "float32")


def output(**fields):
    """Return an output of a model: a dataclass whose fields are items of a dict too."""
    return pytest.importorskip("transformers.modeling_outputs").CausalLMOutput(**fields)


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    image: object
    name: str = "a"
    made: object = dataclasses.field(init=False, default=None)


@attrs.define
class Slotted:
    image: object


CONTAINERS = {
    "list": (lambda x: [1, x], lambda t: t[1]),
    "tuple": (lambda x: (1, x), lambda t: t[1]),
    "named tuple": (lambda x: Point(1, x), lambda t: t.y),
    "OrderedDict": (lambda x: collections.OrderedDict(b=1, a=x), lambda t: t["a"]),
    "defaultdict": (lambda x: collections.defaultdict(list, b=1, a=x), lambda t: t["a"]),
    "UserDict": (lambda x: collections.UserDict(b=1, a=x), lambda t: t["a"]),
    "mappingproxy": (lambda x: types.MappingProxyType({"b": 1, "a": x}), lambda t: t["a"]),
    "dataclass": (Frozen, lambda t: t.image),
    "attrs": (Slotted, lambda t: t.image),
    "nested": (lambda x: {"a": [(Point(None, x),)]}, lambda t: t["a"][0][0].y),
    "output of a model in a list": (lambda x: [output(logits=x)], lambda t: t[0].logits),
    "64 levels": (
        lambda x: functools.reduce(lambda t, _: [t], range(64), x),
        lambda t: functools.reduce(lambda t, _: t[0], range(64), t),
    ),
}


@pytest.mark.parametrize(("make", "get"), CONTAINERS.values(), ids=CONTAINERS)
def test_a_function_gets_the_container_with_what_it_holds_converted(make, get):
    container, seen = make(ONES), []
    ab.torch(lambda x: seen.append(x))(container)
    ab.torch(lambda x: seen.append(x))(x=container)
    for found in seen:
        assert type(found) is type(container)
        assert isinstance(get(found), torch.Tensor) and get(found).shape == (2, 3)
    assert get(container) is ONES


@pytest.mark.parametrize(("make", "get"), CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("name", ("torch", "jax", "tensorflow"))
def test_classes_and_order_stay(make, get, name):
    tree = make(ONES)
    new = ab.convert_tree(tree, name)
    assert type(new) is type(tree) and get(tree) is ONES
    assert bridges.difference(name, get(new), ONES) is None
    if hasattr(tree, "keys"):
        assert list(new) == list(tree)


def test_a_state_dict_keeps_its_metadata(jax):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    state = model.state_dict()
    new = ab.convert_tree(state, "jax")
    assert type(new) is collections.OrderedDict and list(new) == list(state)
    assert new._metadata == state._metadata
    back = ab.convert_tree(new, "torch")
    assert all(back[key].equal(value) for key, value in state.items())


def test_leaves_that_are_no_arrays_stay():
    leaves = [None, 1, 0.5, "text", b"bytes", object(), np.float32(1), np.int8, len, {1, 2}]
    new = ab.convert_tree([*leaves, ONES], "torch")
    assert all(a is b for a, b in zip(new, leaves, strict=False))
    assert isinstance(new[-1], torch.Tensor)


def test_items_and_attributes_of_a_model_output_are_the_same_arrays():
    made = output(logits=ONES, hidden_states=(ONES, ONES * 2))
    found = ab.torch(lambda output: output, dtype_conversion="native")(made)
    assert type(found) is type(made) and isinstance(found.logits, torch.Tensor)
    assert found["logits"] is found.logits and found["hidden_states"] is found.hidden_states
    assert all(isinstance(state, torch.Tensor) for state in found.hidden_states)
    assert list(found) == ["logits", "hidden_states"] and found.loss is None
    assert made["logits"] is ONES


def test_a_function_gets_the_same_array_twice_as_one():
    frame = pytest.importorskip("pandas").DataFrame(ONES)
    same = ab.torch(dtype_conversion="native")(lambda x, y, c, *, d: x is y is c["a"][0] is d)
    for data in (ONES, ONES[:, ::-1], ab.convert(ONES, "numpy", copy=True), frame):
        assert same(data, data, {"a": [data]}, d=data)


def test_a_container_that_contains_itself_ends():
    loop = [ONES]
    loop.append(loop)
    assert ab.numpy(lambda c: len(c))(loop) == 2


@dataclasses.dataclass
class Linked:
    array: object
    other: object = None


def cycles():
    """Containers in which an array beside a cycle would have to be converted, and their places."""
    array = np.ones(2)
    itself, outer, mapping = [array], [array], {"a": array}
    itself.append(itself)
    outer.append({"inner": outer})
    mapping["b"] = {"c": mapping}
    first, second = Linked(array), Linked(array)
    first.other, second.other = second, first
    inner = [array]
    inner.append(inner)
    return {
        "list": (itself, "tree: a list"),
        "list of a dict": (outer, "tree: a list"),
        "dict": (mapping, "tree: a dict"),
        "objects": (first, "tree: a Linked"),
        "below": ([inner], r"tree\[0\]: a list"),
    }


@pytest.mark.parametrize("case", cycles())
def test_a_container_that_holds_itself_is_no_half_converted_tree(case):
    tree, text = cycles()[case]
    for function in (ab.convert_tree, ab.explain_tree):
        with pytest.raises(TypeError, match=f"{function.__name__}.*: {text} holds itself"):
            function(tree, "torch")
    # Nothing has to be made anew here.
    assert ab.convert_tree(tree, "numpy") is tree
    assert len(ab.explain_tree(tree, "numpy").leaves) >= 1
    calls = []
    f = ab.torch(lambda parts, more=None: calls.append((parts, more)))
    with pytest.raises(TypeError, match=r"<lambda>\(\): argument 'parts': a \w+ holds itself"):
        f(tree)
    with pytest.raises(TypeError, match="'more': a"):
        f(1, more=tree)
    assert calls == []
    same = ab.numpy(lambda parts: parts is tree)
    assert same(tree)


def test_a_cycle_without_arrays_passes():
    tree = ["text"]
    tree.append(tree)
    assert ab.convert_tree(tree, "torch") is tree
    f = ab.torch(lambda image, options: (type(image), options is tree))
    assert f(np.ones(2), tree) == (torch.Tensor, True)
    made = ab.convert_tree([tree, np.ones(2)], "torch")
    assert made[0] is tree and type(made[1]) is torch.Tensor
    assert f([np.ones(2), tree], tree)[1]


def test_what_changes_nothing_is_the_tree_itself():
    tree = {"a": [ONES, 1], "b": ()}
    assert ab.convert_tree(tree, "numpy") is tree
    assert ab.convert_tree(5, "torch") == 5
    changed = ab.convert_tree({"a": tree, "b": [torch.ones(2)]}, "numpy")
    assert changed["a"] is tree


def test_the_same_array_twice_stays_the_same_array():
    new = ab.convert_tree({"a": ONES[:, ::-1].copy(), "b": (ONES, ONES)}, "torch", copy=True)
    assert new["b"][0] is new["b"][1] and new["a"] is not new["b"][0]


def test_nodes_that_jax_knows(jax):
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

        def tree_flatten(self):
            return (self.first, self.second), "kept"

        @classmethod
        def tree_unflatten(cls, aux, children):
            assert aux == "kept"
            return cls(*children)

    new = ab.convert_tree([Pair(ONES, None)], "torch")[0]
    assert type(new) is Pair and new.second is None and isinstance(new.first, torch.Tensor)
    plan = ab.explain_tree([Pair(ONES, None)], "torch")
    assert list(plan.leaves) == ["[0][<flat index 0>]"]


def test_a_registered_dataclass_says_which_fields_are_nodes(jax):
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        weight: object
        table: object = dataclasses.field(metadata={"static": True}, default=None)

    static = np.arange(3)
    new = ab.convert_tree(Model(ONES, static), "torch")
    assert isinstance(new.weight, torch.Tensor) and new.table is static


def test_nodes_that_torch_and_optree_know():
    import torch.utils._pytree as pytree

    optree = pytest.importorskip("optree")

    class Box:
        def __init__(self, value):
            self.value = value

    class Case(Box):
        pass

    pytree.register_pytree_node(Box, lambda b: ([b.value], None), lambda items, _: Box(*items))
    optree.register_pytree_node(
        Case, lambda c: ((c.value,), None), lambda _, items: Case(*items), namespace="test"
    )
    try:
        case = ab.convert_tree(Case([ONES]), "torch", namespace="test")
        assert type(case) is Case and isinstance(case.value[0], torch.Tensor)
        kept = Case(ONES)
        assert ab.convert_tree(kept, "torch") is kept
        plan = ab.explain_tree([Case(ONES)], "torch", namespace="test")
        assert list(plan.leaves) == ["[0][<flat index 0>]"]
        new = ab.convert_tree({"box": Box(ONES)}, "torch")
        assert type(new["box"]) is Box and isinstance(new["box"].value, torch.Tensor)
    finally:
        optree.unregister_pytree_node(Case, namespace="test")


def test_is_leaf_ends_a_branch():
    seen = []

    def is_leaf(node):
        seen.append(node)
        return isinstance(node, dict) and "frozen" in node

    frozen = {"frozen": True, "x": ONES}
    new = ab.convert_tree([frozen, {"x": ONES}], "torch", is_leaf=is_leaf)
    assert new[0] is frozen and isinstance(new[1]["x"], torch.Tensor)
    assert frozen in seen


def test_an_error_names_the_leaf():
    bad = np.array(["text"])
    for function in (ab.convert_tree, ab.explain_tree):
        with pytest.raises(ab.MemoryConversionError) as caught:
            function({"a": [ONES, {"b": Point(bad, 1)}]}, "torch")
        place = f"{function.__name__}(): leaf tree['a'][1]['b'][0]"
        assert caught.value.place == place and str(caught.value).startswith(place)
        assert pickle.loads(pickle.dumps(caught.value)).place == place


def test_containers_that_are_too_deep_are_an_error():
    deep = ONES
    for _ in range(64):
        deep = [deep]
    ab.convert_tree(deep, "torch")
    with pytest.raises(TypeError, match="more than 64 levels"):
        ab.convert_tree([deep], "torch")
    with pytest.raises(TypeError, match=r"argument 'params': .* 64 levels"):
        ab.numpy(lambda params: None)([deep])


def test_a_trace_has_one_record_of_a_tree(jax):
    tree = {"a": ONES, "b": [np.zeros(5, "int32"), "text"], "c": torch.ones(2)}
    with ab.trace() as records:
        ab.convert_tree(tree, "torch", copy=True)
        ab.convert(ONES, "torch")
        ab.convert_tree(["no array"], "torch")
    record, single = records
    assert (record.source, record.target) == ("numpy, torch", "torch")
    assert (record.route, record.nbytes, record.dtype) == ("copy", 24 + 20 + 8, "float32, int32")
    assert record.how == "a tree of 3 arrays, 52 bytes copy"
    assert record.ns > 0 and record.line is not None and record.file == __file__
    assert single.how != record.how
    plan = ab.explain_tree(tree, "torch", copy=True)
    assert plan.nbytes == plan.copied == record.nbytes


def test_observers_get_one_record_too_and_errors_leave_the_trace_as_it_was():
    seen = []
    with ab.observe(seen.append):
        ab.convert_tree([ONES, ONES.copy()], "torch")
        with pytest.raises(ab.MemoryConversionError):
            ab.convert_tree([ONES, np.array(["text"])], "torch")
        ab.convert(ONES, "torch")
    assert [record.nbytes for record in seen] == [48, 24]


def test_explain_tree_says_what_would_be_copied_by_leaf_and_in_total():
    tree = {"shared": ONES, "copied": [ONES[:, ::-1]], "none": None}
    plan = ab.explain_tree(tree, "torch")
    assert {place: record.route for place, record in plan.leaves.items()} == {
        "['shared']": "share",
        "['copied'][0]": "copy",
    }
    assert (plan.nbytes, plan.copied) == (48, 24)
    text = str(plan)
    assert "2 arrays" in text and "24 B copied" in text and "['copied'][0]" in text
    why = plan.leaves["['copied'][0]"].why
    assert why in text.replace("\n" + " " * 16, " ")
    assert repr(plan) == "<plan of a tree: 2 arrays, 48 B, 24 B copied>"
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + 2 + 1 and html.count("<td>") == 3 * 5
    assert "<td>[&#x27;copied&#x27;][0]</td>" in html and escape(why) in html


TREES = st.recursive(
    st.one_of(
        st.none(),
        st.text(max_size=3),
        st.integers(),
        st.integers(0, 4).map(lambda n: np.arange(n, dtype="float32")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=12,
)


def same(left, right):
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and np.array_equal(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@settings(deadline=None)
@given(TREES)
def test_there_and_back_is_the_same_tree(tree):
    there = ab.convert_tree(tree, "torch", copy=True)
    assert same(ab.convert_tree(there, "numpy"), tree)


def test_a_buffer_that_a_conversion_refuses_is_refused_with_its_place():
    text = memoryview(b"abc").cast("c")
    for ask in (ab.convert_tree, ab.explain_tree):
        with pytest.raises(
            ab.UnsupportedArrayError, match=r"leaf tree\['a'\]\[0\]: .* pass its numbers"
        ):
            ask({"a": [text]}, "numpy")
    assert ab.convert_tree([memoryview(b"abc")], "numpy")[0].tolist() == [97, 98, 99]


def test_integers_of_a_model_are_narrowed_on_request(jax, torch):
    state = torch.nn.BatchNorm1d(3).state_dict()
    for narrow in (None, "error"):
        with pytest.raises(ab.UnsupportedDtypeError, match="tree.'num_batches_tracked'.*int64"):
            ab.convert_tree(state, "jax", narrow=narrow)
    with pytest.warns(ab.NarrowedDtypeWarning, match=r"convert_tree: JAX has no int64") as caught:
        found = ab.convert_tree(state, "jax", narrow="warn")
    assert len(caught) == 1 and list(found) == list(state)
    assert found["num_batches_tracked"].dtype == "int32" and found["weight"].dtype == "float32"
    plan = ab.explain_tree(state, "jax", narrow="warn")
    assert plan.leaves["['num_batches_tracked']"].route == "copy"
    with pytest.raises(ab.MemoryConversionError, match="tree.0."):
        ab.convert_tree([torch.tensor([2**40])], "jax", narrow="warn")
    with pytest.raises(ValueError, match="unknown narrow \"?'?no"):
        ab.convert_tree(state, "jax", narrow="no")


@pytest.mark.parametrize("tree", [lambda x: [x] * 2, lambda x: {"a": x, "b": (x, 1)}])
def test_no_function_of_python_runs_for_each_container_of_a_plain_tree(tree):
    def calls(count):
        nodes, called = [tree(np.ones(2)) for _ in range(count)], []
        sys.setprofile(
            lambda frame, event, _: called.append(frame.f_code) if event == "call" else None
        )
        try:
            ab.convert_tree(nodes, "torch")
        finally:
            sys.setprofile(None)
        return len(called)

    bridges.need("torch")
    calls(2)
    assert calls(200) == calls(2)
