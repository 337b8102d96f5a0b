"""Functions of other frameworks as an operator in graphs of ``torch.compile``.

A graph needs the shapes and dtypes of results before there are values. JAX and TensorFlow find them
out by tracing; for any other function, ``defvjp(.., result=..)`` describes them. A call is planned
while the graph is made (``plan``), and gets a key. All calls share one operator, which takes that
key. Its derivative is a call with another key.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._core import convert  # type: ignore[import-not-found]
from ._gradients import (
    _HERE,
    _OWN,
    Function,
    Pullback,
    Pushforward,
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

    def spread(self, gradients: Sequence[Any]) -> list[Any]:
        """Return a gradient, or None, for each array of the operator."""
        found = iter(gradients)
        ordered = [next(found) if is_float else None for is_float in self.function.mask]
        by_place = dict(zip(self.order, ordered, strict=True))
        return [by_place[at] for at in range(len(self.order))]


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
    transforms = {each.key() for each in torch._C._functorch.get_interpreter_stack() or ()}
    kinds = torch._C._functorch.TransformType
    if transforms & {kinds.Grad, kinds.Jvp}:
        # The levels of nested transformations are not told apart.
        carries = (True,) * len(carries)
    if any(carries) and by_hand is None and not candidate.options.get("differentiable"):
        return candidate.refuse("an argument requires a gradient, which ends in this function")
    if kinds.Jvp in transforms and by_hand is not None:
        return candidate.refuse("a derivative that is given by hand has no forward mode")
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
        with _untraced():
            for dtype in {*dtypes}:
                lent = _lend_one(torch.zeros(1, dtype=dtype), framework, name)
                # A call outside the graph gives results the dtype that was narrowed.
                if not any(carries) and _name(lent.dtype) != _name(dtype):
                    return candidate.refuse(f"{framework} has no {_name(dtype)} at the moment")
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


@contextlib.contextmanager
def _untraced() -> Iterator[None]:
    """Have new tensors be plain ones, whatever the compiler traces."""
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    from torch.utils._python_dispatch import _disable_current_modes

    with temporarily_clear_interpreter_stack(), _disable_current_modes():
        yield


# Dynamo calls this while it compiles, and takes the result for a constant.
plan._dynamo_marked_constant = True  # type: ignore[attr-defined]

_PLANS: dict[Any, _Call] = {}


def call(number: int, args: Any, kwargs: Any) -> tuple[Any] | None:
    """Return the result of a call in a graph; None if it cannot be in one. Dynamo reads this."""
    import torch
    from torch.fx.experimental import symbolic_shapes

    # PyTorch 2.6 tells neither which numbers are variables of the compiler nor whether it exports.
    if not (
        hasattr(symbolic_shapes, "has_static_value") and hasattr(torch.compiler, "is_exporting")
    ):
        return None
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
    from torch._functorch.autograd_function import enable_single_level_autograd_function

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
        with _untraced():
            promised, _ = call.described(given)
        return [
            torch.empty(shape, dtype=getattr(torch, name), device=home(given))
            for shape, name in promised
        ]

    def mapped(info: Any, axes: Any, key: str, arrays: Sequence[Any]) -> Any:
        """Make the call for each element of a batch."""
        pairs = [*zip(arrays, axes[1], strict=True)]
        rows = []
        for at in range(info.batch_size):
            part = [array if d is None else array.select(d, at) for array, d in pairs]
            rows.append(op(key, part))
        if not rows:
            part = [a if d is None else a.new_empty(a.movedim(d, 0).shape[1:]) for a, d in pairs]
            empty = [each.new_empty((0, *each.shape)) for each in fake(key, part)]
            return empty, [0] * len(empty)
        columns = [torch.stack(column) for column in zip(*rows, strict=True)]
        return columns, [0] * len(columns)

    def derived(key: str, function: Any, arrays: Sequence[Any]) -> list[Any]:
        """Call a derivative, which has a key of its own."""
        if key not in _CALLS:
            _CALLS[key] = _Call(key, function(), range(len(arrays)))
        return op(key, arrays)

    class _Operation(torch.autograd.function._SingleLevelFunction):
        """The operator for one level of automatic differentiation.

        Transformations of ``torch.func`` go through levels one after the other, which
        ``CustomOpDef.register_autograd`` cannot.
        """

        @staticmethod
        def forward(state: Any, key: str, *arrays: Any) -> Any:
            keys, is_recorded, is_pushed = state
            # PyTorch stops recording for this level, and would for those below it.
            with (
                torch.set_grad_enabled(is_recorded),
                torch.autograd.forward_ad._set_fwd_grad_enabled(is_pushed),
                torch._C._AutoDispatchBelowAutograd(),
            ):
                return (*op.redispatch(keys & torch._C._after_autograd_keyset, key, [*arrays]),)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.key, *arrays = inputs
            ctx.floats = tuple(map(_is_inexact, output))
            ctx.save_for_backward(*arrays)
            ctx.save_for_forward(*arrays)
            pairs = zip(output, ctx.floats, strict=True)
            ctx.mark_non_differentiable(*[each for each, is_float in pairs if not is_float])

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            call, floats = _call_of(ctx.key), ctx.floats
            pairs = zip(gradients, floats, strict=True)
            given = [each for each, is_float in pairs if is_float]
            arrays = call.ordered(ctx.saved_tensors)
            key = f"{ctx.key}'{''.join(str(int(each)) for each in floats)}"
            found = derived(key, lambda: Pullback(call.function, floats), [*arrays, *given])
            return None, None, *call.spread(found)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            call = _call_of(ctx.key)
            arrays = call.ordered(ctx.saved_tensors)
            triples = zip(arrays, call.ordered(tangents[2:]), call.function.mask, strict=True)
            given = [
                torch.zeros_like(array) if tangent is None else tangent
                for array, tangent, is_float in triples
                if is_float
            ]
            key = f"{ctx.key}*"
            found = iter(derived(key, lambda: Pushforward(call.function), [*arrays, *given]))
            return tuple(next(found) if is_float else None for is_float in ctx.floats)

    def differentiable(keys: Any, key: str, arrays: Sequence[Any]) -> list[Any]:
        state = keys, torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()
        with enable_single_level_autograd_function():
            return [*_Operation.apply(state, key, *arrays)]

    _LIBRARY.append(library := torch.library.Library("arraybridge", "FRAGMENT"))
    library.define("call(str key, Tensor[] arrays) -> Tensor[]", tags=torch.Tag.pt2_compliant_tag)
    op = torch.ops.arraybridge.call.default
    library.impl("call", torch._disable_dynamo(compute), "CompositeExplicitAutograd")
    library.impl("call", differentiable, "Autograd", with_keyset=True)
    torch.library.register_fake("arraybridge::call", fake, lib=library)
    torch.library.register_vmap("arraybridge::call", mapped, lib=library)
    return op


_LIBRARY: list[Any] = []
"""PyTorch forgets an operator together with its library."""
