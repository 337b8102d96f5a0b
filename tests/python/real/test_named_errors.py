"""Errors say which function and which argument they are about."""

import arraybridge as ab
import numpy as np
import pytest

TEXT = np.array([["a", "b"]])
IMAGE = np.ones((2, 4, 4), "float32")


pytestmark = pytest.mark.usefixtures("torch")


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


def test_a_result_with_a_mask_is_named_where_it_is_put_together():
    masked = np.ma.array(np.ones((2, 4, 4)), mask=True)

    def same(x):
        return x

    for call in (
        ab.numpy(slice_by_slice=True)(same),
        ab.numpy(tiles=(2, 2))(same),
        lambda x: ab.process_slices(x, same),
    ):
        with pytest.raises(ab.UnsupportedArrayError, match=r"same\(\): the result: .* masked"):
            call(masked)


@pytest.mark.parametrize("autograph", (True, False))
def test_an_error_is_the_context_of_that_of_autograph(tf, autograph):
    text = r"register\(\): argument 'image': cannot convert"
    with pytest.raises(Exception, match=text) as raised:
        tf.function(lambda x: ab.torch(register)(x, x), autograph=autograph)(tf.ones(3))
    error = raised.value.__context__ if autograph else raised.value
    assert type(error) is ab.UnsupportedArrayError


async def coroutine(x):
    return x


def generator(x):
    yield x


@pytest.mark.parametrize("function", (coroutine, generator))
def test_what_is_about_a_returned_result_is_refused_elsewhere(function):
    for options in ({"tiles": (2, 2)}, {"differentiable": True}):
        with pytest.raises((TypeError, ValueError), match="functions that return"):
            ab.torch(**options)(function)
    with pytest.raises(TypeError, match="slice_by_slice is for functions that return"):
        ab.torch(slice_by_slice=True)(function)(IMAGE)


NOTE = 'PyTorch has this operation for other dtypes; declare input_dtype="float32"'


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("operation", [
    lambda x: x + 1, lambda x: x > 1, lambda x: x.abs(), lambda x: x.mean(), lambda x: x.std(),
    lambda x: x.quantile(0.5), lambda x: x + x.int(),
])  # fmt: skip
def test_an_error_about_a_dtype_that_an_operation_lacks_names_the_way_out(
    torch, operation, retries
):
    image = np.ones((4, 4), "uint16")
    declared = ab.torch(operation, oom_recovery=retries)
    for given in (image, torch.from_numpy(image)):
        with pytest.raises(RuntimeError) as caught:
            declared(given)
        assert NOTE in caught.value.__notes__[0] and len(caught.value.__notes__) == 1
    with pytest.raises(RuntimeError, match="of its own") as caught:
        ab.torch(lambda x: fail(RuntimeError("of its own")))(image)
    assert not hasattr(caught.value, "__notes__")
    assert ab.torch(operation, input_dtype="float32", output_type="numpy")(image) is not None


def fail(error):
    raise error
