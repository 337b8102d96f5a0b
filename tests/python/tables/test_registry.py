"""The registry has a converter for every ordered pair, and all names follow the table."""

import ast
import itertools
import typing

import arraybridge as ab
import bridges
import numpy as np
import pytest

NAMES = {"numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto"}


def test_there_is_a_converter_for_every_ordered_pair():
    pairs = [tuple(pair) for pair in ab.registered_pairs()]
    assert sorted(pairs) == sorted(itertools.product(NAMES, NAMES))
    assert len(pairs) == 36


def test_the_frameworks_describe_themselves():
    table = {f["name"]: f for f in ab.frameworks()}
    assert set(table) == NAMES
    assert table["torch"]["title"] == "PyTorch"
    assert table["cupy"]["install"] == "cupy-cuda13x"
    assert table["numpy"]["memory"] == "host"
    assert {f["memory"] for f in table.values()} <= {"host", "accelerator", "either"}


def test_the_enum_has_a_member_for_each_framework():
    assert {m.name for m in ab.MemoryType} == {name.upper() for name in NAMES}
    assert {m.value for m in ab.MemoryType} == NAMES
    assert ab.MemoryType.TORCH == "torch"
    assert ab.MemoryType("jax") is ab.MemoryType.JAX
    assert {ab.MemoryType.JAX: 1}["jax"] == 1
    with pytest.raises(ValueError):
        ab.MemoryType("cupi")


def test_members_can_be_pickled_and_copied():
    import copy
    import pickle

    for member in ab.MemoryType:
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member


def test_the_sets_split_the_members_into_host_and_accelerator():
    assert {ab.MemoryType.NUMPY} == ab.CPU_MEMORY_TYPES
    assert set(ab.MemoryType) == ab.SUPPORTED_MEMORY_TYPES
    assert not ab.CPU_MEMORY_TYPES & ab.GPU_MEMORY_TYPES
    assert ab.CPU_MEMORY_TYPES | ab.GPU_MEMORY_TYPES == ab.SUPPORTED_MEMORY_TYPES


@pytest.mark.parametrize(("source", "target"), bridges.pairs())
def test_a_member_converts_out_of_its_framework(source, target):
    image = np.arange(6, dtype="float32").reshape(2, 3)
    member = ab.MemoryType(source)
    x = bridges.make(source, image)
    for to in (getattr(member.converter, f"to_{target}"), getattr(member, f"to_{target}")):
        assert bridges.difference(target, to(x), image) is None
        assert bridges.difference(target, to(x, gpu_id=None), image) is None


def test_a_member_refuses_an_array_of_another_framework():
    with pytest.raises(ab.MemoryConversionError, match="not a PyTorch one"):
        ab.MemoryType.TORCH.converter.to_numpy(np.zeros(3))
    with pytest.raises(AttributeError):
        ab.MemoryType.TORCH.to_nothing  # noqa: B018


def test_all_names_of_the_package_exist_and_are_documented():
    for name in ab.__all__:
        thing = getattr(ab, name)
        # An alias of types has no docstring of its own.
        if callable(thing) and typing.get_origin(thing) is None:
            assert thing.__doc__, name
    assert ab.__version__.count(".") >= 2


def test_the_stubs_and_the_package_have_the_same_names():
    stub = (bridges.ROOT / "arraybridge-py/python/arraybridge/__init__.pyi").read_text()
    listed = "[" + stub.split("__all__ = [", 1)[1].split("]", 1)[0] + "]"
    assert set(ast.literal_eval(listed)) == set(ab.__all__)
