"""Errors say which function and which argument they are about."""

import arraybridge as ab
import numpy as np
import pytest

TEXT = np.array([["a", "b"]])
IMAGE = np.ones((2, 4, 4), "float32")


@pytest.fixture(autouse=True)
def torch():
    return pytest.importorskip("torch")


def register(image, mask, *rest, **options):
    return image


CALLS = {
    "by position": (lambda f: f(IMAGE, TEXT), "'mask'"),
    "by name": (lambda f: f(IMAGE, mask=TEXT), "'mask'"),
    "in a container": (lambda f: f(IMAGE, {"a": [TEXT]}), "'mask'"),
    "beyond the names": (lambda f: f(IMAGE, IMAGE, TEXT), "3"),
    "another name": (lambda f: f(IMAGE, IMAGE, weights=TEXT), "'weights'"),
}


@pytest.mark.parametrize(("call", "name"), CALLS.values(), ids=CALLS)
def test_the_argument_is_named(call, name):
    for f in (
        ab.torch(register),
        ab.torch(register, tiles=(2, 2)),
        ab.torch(register, tiles=(2, 2), workers=2),
        ab.torch(register, slice_by_slice=True),
    ):
        with pytest.raises(ab.MemoryConversionError) as raised:
            call(f)
        assert str(raised.value).startswith(f"register(): argument {name}: cannot convert from")
        assert raised.value.place == f"register(): argument {name}"


def test_an_inner_call_names_itself():
    inner = ab.torch(register)
    with pytest.raises(ab.MemoryConversionError, match=r"^register\(\): argument 'mask': "):
        ab.numpy(lambda x: inner(x, TEXT))(IMAGE)


def test_the_result_is_named():
    def texts(x):
        return np.array(["a"])

    with pytest.raises(ab.MemoryConversionError, match=r"texts\(\): the result: cannot convert"):
        ab.memory_types("numpy", "torch")(texts)(IMAGE)
