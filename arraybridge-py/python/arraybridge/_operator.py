"""Functions of other frameworks as an operator in graphs of ``torch.compile``.

A graph needs the shapes and dtypes of results before there are values. JAX and TensorFlow find them
out by tracing; for any other function, ``defvjp(.., result=..)`` describes them. A call is planned
while the graph is made (``plan``), and gets a key. All calls share one operator, which takes that
key. Its derivative is a call with another key.
"""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ._core import convert  # type: ignore[import-not-found]
from ._gradients import (
    _HERE,
    _OWN,
    Function,
    Pullback,
    _as_positional,
    _Described,
    _is_inexact,
    _lend_one,
    _name,
    _Torch,
)
from ._graph import CANDIDATES
from .exceptions import UnexpectedResultError

__all__: list[str] = []


class _Argument:
    """A tensor among the arguments, of which a graph knows the shape and the dtype."""

    def __init__(self, number: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.number, self.shape, self.dtype = number, shape, dtype


class _Place:
    """The place of a result."""

    def __init__(self, at: int) -> None:
        self.at = at


class _InGraph(Function):
    def as_array(self, leaf: Any) -> Any:
        if type(leaf) in (bool, int, float, complex):
            raise TypeError("it returns a Python number, which has no place in a graph")
        return super().as_array(leaf)


class _Call:
    """A planned call: what the operator does for a key."""

    def __init__(self, key: str, function: Any, order: Sequence[int]) -> None:
        self.key, self.function, self.order = key, function, tuple(order)
        self.known: dict[Any, Any] = {}

    def described(self, arrays: Sequence[Any]) -> tuple[list[tuple[tuple[int, ...], str]], Any]:
        """Return the shapes and dtypes of the results, and their form, for arrays in order."""
        given = [*map(_Described, arrays)]
        key = tuple((each.shape, each.dtype) for each in given)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.function.described(given)
        return found

    def ordered(self, arrays: Sequence[Any]) -> list[Any]:
        return [arrays[at] for at in self.order]


_CALLS: dict[str, _Call] = {}
"""A compiled program has only the key, so a call stays as long as the process."""


def plan(
    number: int,
    given: Any,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[Any, ...],
    carries: tuple[bool, ...],
) -> Any:
    """Return the key of a call and the form of its result; None if it cannot be in a graph.

    Dynamo calls this while it compiles, and takes the result for a constant.
    """
    import torch

    candidate = CANDIDATES[number]
    by_hand = candidate.options.get("vjp")
    if torch.compiler.is_exporting():
        return candidate.refuse("an exported program has no functions of this process")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return candidate.refuse("transformations of torch.func do not reach into an operator")
    if any(carries) and by_hand is None and not candidate.options.get("differentiable"):
        return candidate.refuse("an argument requires a gradient, which ends in this function")
    framework, name = candidate.framework, candidate.name
    if by_hand is None and framework not in _OWN:
        return candidate.refuse("or with defvjp(.., result=..)")
    tensors = [_Argument(at, *each) for at, each in enumerate(zip(shapes, dtypes, strict=True))]
    args, kwargs = formed(given, tensors)
    if by_hand is not None:
        args, kwargs = _as_positional(candidate.function, args, kwargs)
    leaves, tree = _Torch.flatten((args, kwargs))
    own = [leaf for leaf in leaves if isinstance(leaf, _Argument)]
    rest = tuple(_HERE if isinstance(leaf, _Argument) else leaf for leaf in leaves)
    mask = tuple(carries[leaf.number] and _is_inexact(leaf) for leaf in own)
    parts = (candidate.function, framework, name, by_hand, _Torch, tree, rest, mask)
    # Numbers that are equal may differ: 0.0 and -0.0, 1 and True.
    known = (number, repr(given), mask, by_hand)
    call = _PLANS.get(known)
    if call is None:
        order = [leaf.number for leaf in own]
        key = f"{name} {uuid.uuid4().hex}"
        call = _Call(key, _InGraph(parts), order)
    try:
        for dtype in {*dtypes}:
            with torch.utils._python_dispatch._disable_current_modes():
                lent = _lend_one(torch.zeros(1, dtype=dtype), framework, name)
            # A call outside the graph gives results the dtype that was narrowed.
            if not any(carries) and _name(lent.dtype) != _name(dtype):
                return candidate.refuse(f"{framework} has no {_name(dtype)} at the moment")
        with torch.utils._python_dispatch._disable_current_modes():
            results, form = call.described(own)
        places: list[_Place] = []
        made = template(form([_Place(at) for at in range(len(results))]), places, _Place)
    except Exception as error:
        lines = str(error).strip().splitlines()
        return candidate.refuse(lines[0] if lines else type(error).__name__)
    if made is None:
        return candidate.refuse("a graph has no place for an object that it returns")
    _operator()
    _PLANS[known] = _CALLS[call.key] = call
    return call.key, made, tuple(place.at for place in places)


# Dynamo calls this while it compiles, and takes the result for a constant.
plan._dynamo_marked_constant = True  # type: ignore[attr-defined]

_PLANS: dict[Any, _Call] = {}


def call(number: int, args: Any, kwargs: Any) -> tuple[Any] | None:
    """Return the result of a call in a graph; None if it cannot be in one. Dynamo reads this."""
    import torch

    tensors: list[Any] = []
    whole = template((args, kwargs), tensors, torch.Tensor)
    if whole is None or not tensors:
        return None
    # A call is planned for these lengths only.
    shapes = tuple([tuple([operator.index(n) for n in tensor.shape]) for tensor in tensors])
    dtypes = tuple([tensor.dtype for tensor in tensors])
    carries = tuple([tensor.requires_grad for tensor in tensors])
    planned = plan(number, whole, shapes, dtypes, carries)
    if planned is None:
        return None
    key, form, places = planned
    results = torch.ops.arraybridge.call(key, tensors)
    return (formed(form, [results[at] for at in places]),)


# A template is a value in tuples, which are constants to Dynamo: "array" with its number, "value",
# and containers with their items.


def template(value: Any, arrays: list[Any], kind: type) -> Any:
    """Return the template of a value, and add its arrays of a class to a list; None if it has none.

    Dynamo reads this.
    """
    from torch.fx.experimental import symbolic_shapes

    if isinstance(value, kind):
        arrays.append(value)
        return ("array", len(arrays) - 1)
    if value is None or type(value) in (bool, str, bytes):
        return ("value", value)
    if type(value) in (int, float):
        # The compiler may have made a variable of a number that changes, and takes -0.0 for 0.0.
        if not symbolic_shapes.has_static_value(value) and type(value) is float and value == 0:
            return None
        return ("value", symbolic_shapes.guard_scalar(value))
    if type(value) in (tuple, list):
        items = [template(item, arrays, kind) for item in value]
        if any([item is None for item in items]):
            return None
        return ("tuple" if type(value) is tuple else "list", *items)
    if type(value) is dict:
        pairs = []
        for key, item in value.items():
            one = template(item, arrays, kind)
            if one is None or type(key) not in (str, int):
                return None
            pairs.append((key, one))
        return ("dict", *pairs)
    return None


def formed(template: Any, arrays: Sequence[Any]) -> Any:
    """Return the value of a template with these arrays. Dynamo reads this."""
    kind = template[0]
    if kind == "array":
        return arrays[template[1]]
    if kind == "value":
        return template[1]
    if kind == "dict":
        found = {}
        for key, item in template[1:]:
            found[key] = formed(item, arrays)
        return found
    items = [formed(item, arrays) for item in template[1:]]
    return tuple(items) if kind == "tuple" else items


# The operator


def _call_of(key: str) -> _Call:
    call = _CALLS.get(key)
    if call is None:
        name = key.rpartition(" ")[0]
        raise RuntimeError(
            f"{name}() is an operator of the process that compiled this program, and of no other; "
            "for a program that is saved, register the function with arraybridge.torch_op"
        )
    return call


@functools.cache
def _operator() -> Callable[..., Any]:
    """Return the operator, which is registered at the first use."""
    import torch

    def home(arrays: Sequence[Any]) -> Any:
        return next(filter(_is_inexact, arrays), arrays[0]).device

    def compute(key: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        call = _call_of(key)
        given = call.ordered([array.detach() for array in arrays])
        function = call.function
        results, _ = function.run(function.lend(given))
        found = [convert(each, "torch", copy=True, device=home(given)) for each in results]
        promised, _ = call.described(given)
        made = [((*each.shape,), _name(each.dtype)) for each in found]
        if made != promised:
            raise UnexpectedResultError(
                f"{function.name}() returned {made}, but was to return {promised}; make its "
                "result and the description of it agree"
            )
        return found

    def fake(key: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        call = _call_of(key)
        given = call.ordered(arrays)
        with torch.utils._python_dispatch._disable_current_modes():
            promised, _ = call.described(given)
        return [
            torch.empty(shape, dtype=getattr(torch, name), device=home(given))
            for shape, name in promised
        ]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.key, arrays = inputs
        ctx.save_for_backward(*arrays)
        ctx.like = [(each.shape, each.dtype, each.device) for each in output]

    def gradients(ctx: Any, gradients: Sequence[Any]) -> Any:
        call = _call_of(ctx.key)
        floats = tuple(dtype.is_floating_point or dtype.is_complex for _, dtype, _ in ctx.like)
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if each is None else each
            for each, (shape, dtype, device) in zip(gradients, ctx.like, strict=True)
        ]
        own = [each for each, is_float in zip(given, floats, strict=True) if is_float]
        arrays = call.ordered(ctx.saved_tensors)
        key = f"{ctx.key}'{''.join(str(int(each)) for each in floats)}"
        if key not in _CALLS:
            pullback = Pullback(call.function, floats)
            _CALLS[key] = _Call(key, pullback, range(len(arrays) + len(own)))
        found = iter(op(key, [*arrays, *own]))
        ordered = [next(found) if own else None for own in call.function.mask]
        by_place = dict(zip(call.order, ordered, strict=True))
        return None, [by_place[at] for at in range(len(arrays))]

    op = torch.library.custom_op(
        "arraybridge::call",
        compute,
        mutates_args=(),
        schema="(str key, Tensor[] arrays) -> Tensor[]",
    )
    op.register_fake(fake)
    op.register_autograd(gradients, setup_context=save)
    return op
