"""How declared functions are called. Each convention declares a function and judges a call.

A convention gets the decorator and a `Call`, which makes arguments and looks at what arrives.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import pickle
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import bridges
import numpy as np
from subject import Subject

IMAGE = np.arange(24).reshape(4, 6).astype("uint16")
Pair = namedtuple("Pair", "image rest")
CONVENTIONS: dict[str, Callable[[Any, Call], Any]] = {}


@dataclasses.dataclass
class Record:
    image: Any
    name: str = "x"


class Wrong(Exception):
    """What was wrong."""


class Call:
    """The arguments of a call from one framework, and what the function of another one saw."""

    def __init__(self, subject: Subject, framework: str, source: str) -> None:
        self.subject, self.framework, self.source = subject, framework, source
        self.expected = IMAGE

    def array(self, values: np.ndarray = IMAGE) -> Any:
        return bridges.make(self.source, values)

    def saw(self, x: Any, values: np.ndarray | None = None) -> Any:
        """Check an argument inside of the function."""
        self._check(x, self.expected if values is None else values, "the argument")
        return x

    def returned(self, x: Any, values: np.ndarray | None = None) -> None:
        self._check(x, self.expected if values is None else values, "the result")

    def _check(self, x: Any, values: np.ndarray, what: str) -> None:
        try:
            problem = bridges.difference(self.framework, x, values)
        except AssertionError:
            problem = f"is a {type(x).__module__}.{type(x).__qualname__}"
        if problem:
            raise Wrong(f"{what}: {problem}")


def convention(name: str):
    def register(function):
        CONVENTIONS[name] = function
        return function

    return register


def run(subject: Subject, case: dict[str, Any]) -> str | None:
    """Why the case is wrong; None if it is right."""
    call = Call(subject, case["framework"], case["source"])
    try:
        CONVENTIONS[case["convention"]](subject.decorator(case["framework"]), call)
    except Wrong as error:
        return str(error)
    return None


def demand(condition: Any, otherwise: str) -> None:
    if not condition:
        raise Wrong(otherwise)


# Where the array stands


@convention("positional")
def _positional(declare, call):
    call.returned(declare(lambda image: call.saw(image))(call.array()))


@convention("keyword")
def _keyword(declare, call):
    def function(image):
        return call.saw(image)

    call.returned(declare(function)(image=call.array()))


@convention("default")
def _default(declare, call):
    def function(image, size=3):
        demand(size == 3, f"the default is {size!r}")
        return call.saw(image)

    call.returned(declare(function)(call.array()))


@convention("keyword only")
def _keyword_only(declare, call):
    def function(image, *, size):
        demand(size == 5, f"the keyword is {size!r}")
        return call.saw(image)

    call.returned(declare(function)(call.array(), size=5))


@convention("star arguments")
def _star(declare, call):
    def function(*images):
        return [call.saw(image) for image in images][0]

    call.returned(declare(function)(call.array(), call.array()))


@convention("star keywords")
def _star_keywords(declare, call):
    def function(image, **others):
        demand(sorted(others) == ["mask", "size"], f"the keywords are {sorted(others)}")
        call.saw(others["mask"])
        return call.saw(image)

    call.returned(declare(function)(call.array(), mask=call.array(), size=1))


@convention("method")
def _method(declare, call):
    class Filter:
        @declare
        def apply(self, image):
            demand(isinstance(self, Filter), "self is something else")
            return call.saw(image)

    call.returned(Filter().apply(call.array()))


@convention("class method")
def _class_method(declare, call):
    class Filter:
        @classmethod
        @declare
        def apply(cls, image):
            demand(cls is Filter, "cls is something else")
            return call.saw(image)

    call.returned(Filter.apply(call.array()))


@convention("static method")
def _static_method(declare, call):
    class Filter:
        @staticmethod
        @declare
        def apply(image):
            return call.saw(image)

    call.returned(Filter().apply(call.array()))


@convention("two arrays")
def _two(declare, call):
    second = bridges.make("numpy" if call.source != "numpy" else "torch", IMAGE)

    def function(image, mask):
        call.saw(mask)
        return call.saw(image)

    call.returned(declare(function)(call.array(), second))


def _contained(wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]):
    def check(declare, call):
        call.returned(declare(lambda given: call.saw(unwrap(given)))(wrap(call.array())))

    return check


CONVENTIONS["array in a list"] = _contained(lambda x: [x, 1], lambda given: given[0])
CONVENTIONS["array in a tuple"] = _contained(lambda x: (x, 1), lambda given: given[0])
CONVENTIONS["array in a dict"] = _contained(lambda x: {"a": x}, lambda given: given["a"])
CONVENTIONS["array in a dataclass"] = _contained(Record, lambda given: given.image)


def _result(wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]):
    def check(declare, call):
        found = declare(lambda image: wrap(call.saw(image)))(call.array())
        demand(type(found) is type(wrap(None)), f"the result is a {type(found).__name__}")
        call.returned(unwrap(found))

    return check


CONVENTIONS["tuple result"] = _result(lambda x: (x, 1), lambda found: found[0])
CONVENTIONS["list result"] = _result(lambda x: [x, 1], lambda found: found[0])
CONVENTIONS["dict result"] = _result(lambda x: {"a": x}, lambda found: found["a"])
CONVENTIONS["named tuple result"] = _result(lambda x: Pair(x, 1), lambda found: found.image)


@convention("nested call")
def _nested(declare, call):
    inner = declare(lambda image: call.saw(image))
    call.returned(declare(lambda image: inner(call.saw(image)))(call.array()))


@convention("coroutine")
def _coroutine(declare, call):
    async def function(image):
        await asyncio.sleep(0)
        return call.saw(image)

    call.returned(asyncio.run(declare(function)(call.array())))


@convention("generator")
def _generator(declare, call):
    def function(image):
        yield call.saw(image)
        yield call.saw(image)

    found = list(declare(function)(call.array()))
    demand(len(found) == 2, f"it yielded {len(found)}")
    for image in found:
        call.returned(image)


CONVENTIONS["lambda"] = _positional


@convention("closure")
def _closure(declare, call):
    count = 0

    def function(image):
        nonlocal count
        count += 1
        return call.saw(image)

    declared = declare(function)
    call.returned(declared(call.array()))
    call.returned(declared(call.array()))
    demand(count == 2, f"it was called {count} times")


@convention("slice by slice")
def _slices(declare, call):
    stack = np.stack([IMAGE, IMAGE + 1, IMAGE + 2])
    seen = []

    def function(image):
        seen.append(image)
        return call.saw(image, stack[len(seen) - 1])

    call.returned(declare(function)(call.array(stack), slice_by_slice=True), stack)
    demand(len(seen) == 3, f"it was called {len(seen)} times")


# What is no array


def _returns(value: Any):
    def check(declare, call):
        found = declare(lambda image: value)(call.array())
        demand(type(found) is type(value) and found == value, f"the result is {found!r}")

    return check


CONVENTIONS["None result"] = _returns(None)
CONVENTIONS["number result"] = _returns(2.5)
CONVENTIONS["text result"] = _returns("text")


@convention("no arrays")
def _no_arrays(declare, call):
    def function(size=2):
        return size

    demand(declare(function)() == 2 and declare(function)(size=3) == 3, "another result")


def _raises(error: BaseException):
    def check(declare, call):
        def function(image):
            raise error

        try:
            declare(function)(call.array())
        except type(error) as caught:
            demand(caught is error, f"another {type(error).__name__}")
        else:
            raise Wrong("nothing was raised")

    return check


CONVENTIONS["exception"] = _raises(KeyError("a"))
CONVENTIONS["keyboard interrupt"] = _raises(KeyboardInterrupt())


def function_of_this_module(image, size=3, *, sigma: float = 1.0):
    """Blurs an image."""
    return image


@convention("name")
def _name(declare, call):
    declared = declare(function_of_this_module)
    for key in ("__name__", "__qualname__", "__module__"):
        found = getattr(declared, key)
        demand(found == getattr(function_of_this_module, key), f"{key} is {found!r}")


@convention("docstring")
def _docstring(declare, call):
    found = inspect.getdoc(declare(function_of_this_module)) or ""
    demand(found.startswith("Blurs an image."), f"the docstring is {found!r}")


@convention("signature")
def _signature(declare, call):
    found = list(inspect.signature(declare(function_of_this_module)).parameters)
    demand(found[:3] == ["image", "size", "sigma"], f"the parameters are {found}")


@convention("wrapped")
def _wrapped(declare, call):
    found = inspect.unwrap(declare(function_of_this_module))
    demand(found is function_of_this_module, f"it wraps {found!r}")


@convention("isgenerator")
def _is_generator(declare, call):
    def function(image):
        yield image

    demand(inspect.isgeneratorfunction(declare(function)), "inspect sees no generator function")


@convention("iscoroutine")
def _is_coroutine(declare, call):
    async def function(image):
        return image

    demand(inspect.iscoroutinefunction(declare(function)), "inspect sees no coroutine function")


@convention("memory types")
def _memory_types(declare, call):
    declared = declare(function_of_this_module)
    found = (str(declared.input_memory_type), str(declared.output_memory_type))
    demand(found == (call.framework,) * 2, f"it declares {found}")


@convention("pickle")
def _pickle(declare, call):
    global declared_here
    function = lambda image: image  # noqa: E731
    function.__qualname__ = function.__name__ = "declared_here"
    declared_here = declare(function)
    again = pickle.loads(pickle.dumps(declared_here))
    call.returned(again(call.array()))


def _refuses(*args: Any, **kwargs: Any):
    def check(declare, call):
        try:
            declare(function_of_this_module)(*(a() for a in args), **kwargs)
        except TypeError:
            return
        raise Wrong("it was called")

    return check


CONVENTIONS["wrong keyword"] = _refuses(lambda: IMAGE, sigmma=1)
CONVENTIONS["too few arguments"] = _refuses()


@convention("recursion")
def _recursion(declare, call):
    def function(image, depth=3):
        return declared(image, depth - 1) if depth else call.saw(image)

    declared = declare(function)
    call.returned(declared(call.array()))


@convention("contract that fails")
def _contract_fails(declare, call):
    try:
        declare(contract=lambda result: False)(lambda image: image)(call.array())
    except ValueError:
        return
    raise Wrong("the contract was not asked")


@convention("contract that holds")
def _contract_holds(declare, call):
    call.returned(declare(contract=lambda result: True)(lambda image: image)(call.array()))


@convention("callable twice")
def _twice(declare, call):
    declared = declare(declare(lambda image: call.saw(image)))
    call.returned(declared(call.array()))


@convention("default is not converted")
def _default_array(declare, call):
    kept = np.ones(2, "float32")

    def function(image, kernel=kept):
        demand(kernel is kept, "the default was replaced")
        return call.saw(image)

    call.returned(declare(function)(call.array()))


def _left_alone(value: Any):
    def check(declare, call):
        def function(image, other):
            demand(other is value, f"{other!r} instead of {value!r}")
            return call.saw(image)

        call.returned(declare(function)(call.array(), value))

    return check


CONVENTIONS["numbers are left alone"] = _left_alone(2.5)
CONVENTIONS["text is left alone"] = _left_alone("text")
CONVENTIONS["list of numbers is left alone"] = _left_alone([1, 2, 3])


# Layouts


def _layout(make: Callable[[np.ndarray], np.ndarray]):
    def check(declare, call):
        given = make(IMAGE)
        native = given.astype(given.dtype.newbyteorder("="))
        call.returned(declare(lambda image: call.saw(image, native))(given), native)

    return check


CONVENTIONS["three axes"] = _layout(lambda x: x.reshape(2, 3, 4))
CONVENTIONS["empty"] = _layout(lambda x: x[:0])
CONVENTIONS["read-only"] = _layout(bridges.frozen)
CONVENTIONS["non-contiguous"] = _layout(lambda x: x[::2, ::-1])
CONVENTIONS["byte-swapped"] = _layout(lambda x: x.astype(">u2"))
CONVENTIONS["one axis"] = _layout(lambda x: x.reshape(-1))
