"""Unusual uses of the decorators, which have to work all the same."""

import abc
import ast
import asyncio
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import pickle
import pydoc
import sys
import types
import typing
import unittest.mock
import weakref

import arraybridge as ab
import bridges
import declared_module
import numpy as np
import pytest
from arraybridge.stubs import stub

image = functools.partial(bridges.image, dtype="uint16")


def kind(array):
    return ab.detect_memory_type(array)


def test_a_callable_object_is_of_the_kind_of_its_call_method():
    class Coroutine:
        async def __call__(self, image):
            return image

    class Generator:
        def __call__(self, image):
            yield image

    class AsyncGenerator:
        async def __call__(self, image):
            yield image

    declare = ab.torch(output_type="numpy")

    async def first(steps):
        return [kind(array) async for array in steps]

    assert kind(asyncio.run(declare(Coroutine())(image(2)))) == "numpy"
    assert [kind(array) for array in declare(Generator())(image(2))] == ["numpy"]
    assert asyncio.run(first(declare(AsyncGenerator())(image(2)))) == ["numpy"]


def test_messages_name_a_partial_by_its_function_and_an_object_by_its_class():
    def scaled(by, image):
        return image * by

    class Scale:
        def __call__(self, image):
            return image * 1e9

    f = ab.numpy(functools.partial(functools.partial(scaled), np.full(3, 1e9)))
    assert "scaled" in repr(f) and "array" not in repr(f)
    with pytest.warns(ab.ClippedValuesWarning, match=r"scaled: 2 values"):
        f(image(3))
    with pytest.warns(ab.ClippedValuesWarning, match=r"Scale: 2 values"):
        ab.numpy(Scale())(image(3))


@pytest.mark.parametrize("value", ["no", 1, np.ones(2), b""])
def test_slice_by_slice_is_true_or_false(value):
    f = ab.numpy(lambda image: image)
    with pytest.raises(TypeError, match="slice_by_slice must be True or False"):
        f(image(2, 2, 2), slice_by_slice=value)
    assert f(image(2, 2, 2), slice_by_slice=np.True_).shape == (2, 2, 2)


def test_an_option_is_checked_even_where_it_is_not_used():
    with pytest.raises(ValueError, match='unknown rung "hots"'):
        ab.torch(oom_recovery=False, on_oom="hots")


def test_arguments_named_like_options_are_arguments():
    @ab.torch
    def f(function, options, args, kwargs, device="here", copy=1, host=2, arrays=3):
        return kind(function), options, kind(args), kwargs, device, copy, host, arrays

    result = f(function=image(2), options=1, args=image(2), kwargs=2, device="x", copy="y")
    assert result == ("torch", 1, "torch", 2, "x", "y", 2, 3)


def test_properties_and_class_bodies_accept_declared_functions():
    @dataclasses.dataclass
    class Data:
        by: int = 2

        @property
        @ab.torch(output_type="numpy")
        def ones(self):
            import torch

            return torch.ones(2) * self.by

        @functools.cached_property
        @ab.torch
        def once(self):
            return object()

        @ab.torch
        def times(self, image):
            return kind(image), self.by

        double = functools.partialmethod(times)

        @ab.torch
        def __call__(self, image):
            return kind(image)

        @ab.torch
        def __getitem__(self, image):
            return kind(image)

    data = Data()
    assert [field.name for field in dataclasses.fields(Data)] == ["by"]
    assert (data.ones == 2).all() and data.once is data.once
    assert data.times(image(2)) == data.double(image(2)) == ("torch", 2)
    assert data(image(2)) == data[image(2)] == "torch"

    class Member(enum.Enum):
        ONE = 1

        @ab.torch
        def of(self, image):
            return self.value, kind(image)

    assert list(Member) == [Member.ONE] and Member.ONE.of(image(2)) == (1, "torch")

    class Base(abc.ABC):
        @ab.torch
        @abc.abstractmethod
        def f(self, image): ...

    with pytest.raises(TypeError, match="abstract"):
        Base()


def test_a_class_can_be_declared_as_a_function():
    @ab.torch
    class Holder:
        def __init__(self, image):
            self.kind = kind(image)

    assert Holder(image(2)).kind == "torch"


@pytest.mark.parametrize("thing", [3, "numpy", np.zeros(2), property(lambda self: 1)])
def test_what_cannot_be_called_cannot_be_declared(thing):
    with pytest.raises(TypeError, match="is for a function, not for"):
        ab.torch(thing)


def test_a_dtype_that_a_call_asks_for_passes_through_every_declaration():
    class Config:
        default_dtype_conversion = "native"

    half = ab.numpy(lambda image: image / 2)
    wrapped = functools.wraps(half)(lambda *args, **kwargs: half(*args, **kwargs))
    for inner in (half, wrapped, functools.partial(half), ab.torch(half)):
        f = ab.torch(inner, output_type="numpy")
        assert f(image(3) + np.uint16(10)).tolist() == [5, 6, 6]
        for result in (
            f(image(3), dtype_conversion="float64"),
            f(image(3), dtype_conversion=ab.DtypeConversion.NATIVE_OUTPUT),
            f(image(3), dtype_config=Config),
        ):
            assert result.dtype == np.float64 and result.tolist() == [0, 0.5, 1]

    # A wrapper that takes no keywords hands none on.
    narrow = functools.wraps(half)(lambda image: half(image))
    assert ab.numpy(narrow)(image(3) + np.uint16(10), dtype_config=Config()).dtype == np.uint16

    @ab.torch
    def own(image, dtype_conversion=None):
        return image, dtype_conversion

    assert ab.numpy(own)(image(2), dtype_conversion="its own")[1] == "its own"


def test_results_that_are_not_arrays_are_the_same_objects():
    results = [None, "text", (1, "a"), {"a": 1}, {1}, iter([1]), range(2), Ellipsis, 10**40]
    for result in results:
        assert ab.torch(lambda image, result=result: result)(image(2)) is result


def test_exceptions_have_no_frames_but_those_of_the_functions():
    @ab.torch
    def f(image):
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        f(image(2))
    # CPython 3.11 runs the declared function as well.
    frames = 1 + (sys.version_info < (3, 12))
    assert [entry.name for entry in caught.traceback][1:] == ["f"] * frames
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_endless_recursion_is_a_recursion_error():
    f = ab.torch(lambda image: f(np.asarray(image)))
    with pytest.raises(RecursionError):
        f(image(2))


def test_a_generator_is_closed_when_its_user_leaves():
    log = []

    @ab.torch(output_type="numpy")
    def f(image):
        try:
            yield from image
            return image
        finally:
            log.append("closed")

    steps = f(image(3, 2))
    next(steps)
    steps.close()
    steps = f(image(3, 2))
    next(steps)
    del steps
    gc.collect()
    assert log == ["closed"] * 2

    def outer():
        return (yield from f(image(1, 2)))

    steps = outer()
    next(steps)
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert kind(stop.value.value) == "numpy"

    @contextlib.contextmanager
    @ab.torch
    def suppressing(image):
        with contextlib.suppress(KeyError):
            yield image

    with suppressing(image(2)) as inside:
        assert kind(inside) == "torch"
        raise KeyError


def test_tasks_can_be_gathered_and_cancelled():
    log = []

    @ab.torch(output_type="numpy")
    async def f(image, seconds=0.0):
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        return image

    async def main():
        results = await asyncio.gather(*(f(image(2) + i) for i in range(8)))
        assert [r[0] for r in results] == list(range(8))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(f(image(2), 60.0), 0.01)

    asyncio.run(main())
    assert log == ["cancelled"]


def test_tools_see_the_function():
    assert inspect.isroutine(declared_module.doubled)
    page = pydoc.render_doc(declared_module, renderer=pydoc.plaintext)
    # CPython 3.13 and later write one parameter in a line.
    page = " ".join(page.split()).replace("( ", "(").replace(" )", ")")
    # The keywords of the original are not shown.
    assert " doubled(image) " in page
    with unittest.mock.patch.object(declared_module, "doubled", autospec=True) as mock:
        declared_module.doubled(3)
    mock.assert_called_once_with(3)

    @ab.torch
    def f(image: "np.ndarray", by: "int" = 2) -> "np.ndarray": ...

    assert typing.get_type_hints(f) == {"image": np.ndarray, "by": int, "return": np.ndarray}


@pytest.mark.parametrize(
    "doc",
    ['a "quoted" word', 'its "end"', "both \"\"\" and '''", "a \\ slash", "its end \\", '"""'],
)
def test_every_docstring_fits_into_a_stub(doc):
    module = types.ModuleType("filters")
    module.f = ab.numpy(lambda image: image)
    module.f.__doc__ = f"{doc}\n\n{doc}"
    (function,) = ast.parse(stub(module)).body[1:]
    assert ast.get_docstring(function) == module.f.__doc__


def test_an_annotation_that_is_no_type_is_any_in_a_stub():
    def f(image: object(), by: "a number" = 2): ...  # noqa: F722

    module = types.ModuleType("filters")
    module.f = ab.numpy(f)
    assert "def f(image: Any, by: Any = 2, *," in " ".join(stub(module).split()).replace("( ", "(")


def test_a_stub_has_what_the_module_defines_and_not_what_it_imports():
    module = types.ModuleType("found")
    text = """
from __future__ import annotations
from datetime import datetime
from typing import NamedTuple
from numpy import ndarray
import arraybridge as ab

class Found(NamedTuple):
    labels: ndarray
    number: int = 0

@ab.numpy
def count(image: ndarray, when: datetime | None = None) -> Found:
    return Found(image, 1)
"""
    exec(text, vars(module))
    text = stub(module)
    assert "    labels: ndarray\n    number: int = ...\n" in text
    assert "class ndarray" not in text and "class datetime" not in text and "count(" in text


def test_a_function_that_does_not_say_its_parameters_has_any_in_a_stub():
    module = types.ModuleType("filters")
    module.attribute = ab.numpy(getattr)
    assert "def attribute(*args: Any, **kwargs: Any) -> Any:" in stub(module)


def test_copies_and_pickles_work_like_the_original():
    f = ab.torch(output_type="numpy", on_oom=("clear",), host=declared_module.plain)(
        functools.partial(declared_module.plain)
    )
    values = image(2, dtype="int32")
    for other in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert (other(values) == values + 1).all()
    assert copy.deepcopy({"f": declared_module.doubled})["f"] is declared_module.doubled
    method = pickle.loads(pickle.dumps(declared_module.Filters(4).times))
    assert (method(values) == values * 4).all()
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(ab.torch(lambda image: image))


def test_reference_cycles_of_declared_functions_are_collected():
    # A Python function, and a `Declared`.
    for make in (lambda: lambda image: image, lambda: functools.partial(lambda image: image)):
        f = ab.numpy(make())
        f.itself = f
        gone = weakref.ref(f)
        del f
        gc.collect()
        assert gone() is None

    def host(image): ...

    host.decorator = ab.numpy(host=host)
    gone = weakref.ref(host)
    del host
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)])
def test_arrays_of_every_size_keep_their_dtype(shape):
    f = ab.torch(lambda image: image.double() + 0.4, output_type="input")
    result = f(np.zeros(shape, "uint8"))
    assert (result.dtype, result.shape) == (np.uint8, shape)


@pytest.mark.parametrize("name", ["jax", "pyclesperanto"])
def test_the_output_may_have_the_dtype_that_the_function_lacks(name):
    f = getattr(ab, name)(input_dtype="float32", output_type="input")(lambda image: image + 0)
    result = f(np.ones((2, 3)))
    assert result.dtype == np.float64 and (result == 1).all()
    options = dict(input_dtype="float32")
    with pytest.warns(ab.NarrowedDtypeWarning, match="float64 arrays become float32"):
        result = getattr(ab, name)(**options)(lambda image: image)(np.ones((2, 3)))
    assert "float32" in str(result.dtype)
    with pytest.raises(ab.UnsupportedDtypeError, match='dtype_conversion="native"'):
        getattr(ab, name)(narrow="error", **options)(lambda image: image)(np.ones((2, 3)))


@pytest.mark.parametrize("rows", [1, 5])
def test_arrays_that_are_sliced_together_have_one_length(rows):
    f = ab.torch(lambda image, mask: image, sliced="mask")
    with pytest.raises(ValueError, match=rf"argument 'mask'.*lengths \[2\] and \[{rows}\]"):
        f(image(2, 3, 3), image(rows, 3, 3), slice_by_slice=True)


@pytest.mark.parametrize(
    "result",
    [
        lambda image: image.double().mean(0),
        lambda image: image[::2],
        lambda image: image.double().sum(),
        lambda image: {"image": image},
        lambda image: (image, 1)[: 2 - int(image.sum() > 20)],
    ],
)
def test_results_whose_lengths_do_not_add_up_end_the_split(torch, result):
    @ab.torch(split_axis=0, dtype_conversion="native")
    def f(image):
        if len(image) > 2:
            torch.empty(1 << 47)
        return result(image)

    with pytest.raises(RuntimeError, match="allocate") as caught:
        f(image(4, 3))
    assert "arraybridge tried split: ValueError" in "".join(caught.value.__notes__)
