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

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.fx.experimental import symbolic_shapes

from .._core import convert  # type: ignore[import-not-found]
from ..exceptions import UnexpectedResultError
from . import torch as library
from .described import HERE, Arguments, Described, chosen, dtype_name, is_inexact, listed, spread
from .dynamo import CANDIDATES
from .function import NUMBERS, OWN, Function, Pullback, Pushforward, first_line, lend
from .gradients import as_positional
from .modes import Modes

__all__: list[str] = []


class _Tensor(Described):
    """An argument or a result in a graph, which has no values yet."""

    def __init__(self, number: int, shape: Sequence[int], dtype: Any) -> None:
        super().__init__(shape, dtype)
        self.number = number


class _InGraph(Function):
    def as_array(self, leaf: Any) -> Any:
        if type(leaf) in NUMBERS:
            raise TypeError("it returns a Python number, which has no place in a graph")
        return super().as_array(leaf)


class _Call:
    """A planned call: what the operator does for a key."""

    def __init__(self, key: str, function: Any, order: Sequence[int]) -> None:
        self.key, self.function, self.order = key, function, tuple(order)
        self.known: dict[Any, Any] = {}

    def described(self, arrays: Sequence[Any]) -> tuple[list[Described], Any]:
        """Return what describes the results, and their form, for arrays in order."""
        given = tuple(map(Described.of, arrays))
        found = self.known.get(given)
        if found is None:
            found = self.known[given] = self.function.described(given)
        return found

    def ordered(self, arrays: Sequence[Any]) -> list[Any]:
        return [arrays[at] for at in self.order]

    def spread(self, gradients: Sequence[Any]) -> list[Any]:
        """Return a gradient, or None, for each array of the operator."""
        ordered = spread(gradients, self.function.mask)
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
    is_native = getattr(candidate.function, "_is_native", False)
    if by_hand is None and framework not in OWN and not is_native:
        return candidate.refuse("or with defvjp(.., result=..)")
    tensors = [_Tensor(at, *each) for at, each in enumerate(zip(shapes, dtypes, strict=True))]
    args, kwargs = formed(given, tensors)
    if by_hand is not None:
        args, kwargs = as_positional(candidate.function, args, kwargs)
    leaves, tree = library.flatten((args, kwargs))
    own = [leaf for leaf in leaves if isinstance(leaf, _Tensor)]
    rest = [HERE if isinstance(leaf, _Tensor) else leaf for leaf in leaves]
    mask = tuple(carries[leaf.number] and is_inexact(leaf) for leaf in own)
    # Numbers that are equal may differ: 0.0 and -0.0, 1 and True.
    known = (number, repr(given), mask, by_hand, Modes())
    call = _PLANS.get(known)
    if call is None:
        arguments = Arguments(library, tree, rest)
        function = _InGraph(candidate.function, framework, name, by_hand, arguments, mask)
        key = f"{name} {uuid.uuid4().hex}"
        call = _Call(key, function, [leaf.number for leaf in own])
    try:
        with _untraced():
            for dtype in {*dtypes}:
                wanted = dtype_name(dtype)
                lent = lend(torch.zeros(1, dtype=dtype), framework, name)
                # A call outside the graph gives results the dtype that was narrowed.
                if not any(carries) and dtype_name(lent.dtype) != wanted:
                    return candidate.refuse(f"{framework} has no {wanted} at the moment")
            call.function.expect_operator()
            results, form = call.described(own)
        if any(mask) and (call.function.cells or call.function.unrepeatable):
            return candidate.refuse(call.function.unrepeatable or "it writes to variables")
        numbered = [_Tensor(at, each.shape, each.dtype) for at, each in enumerate(results)]
        placed: list[_Tensor] = []
        made = template(form(numbered), placed, _Tensor)
    except Exception as error:
        return candidate.refuse(first_line(error))
    if made is None:
        return candidate.refuse("a graph has no place for an object that it returns")
    _register()
    _PLANS[known] = _CALLS[call.key] = call
    return call.key, made, tuple(each.number for each in placed)


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


def _op(key: str, arrays: Sequence[Any]) -> list[Any]:
    found: list[Any] = torch.ops.arraybridge.call.default(key, arrays)
    return found


def _home(arrays: Sequence[Any]) -> Any:
    return next(filter(is_inexact, arrays), arrays[0]).device


def _compute(key: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    call = _call_of(key)
    given = call.ordered([array.detach() for array in arrays])
    function = call.function
    results, _ = function.made(given)
    found = [convert(each, "torch", copy=True, device=_home(given)) for each in results]
    promised, _ = call.described(given)
    made = [*map(Described.of, found)]
    if made != promised:
        raise UnexpectedResultError(
            f"{function.name}() returned {listed(made)}, but was to return {listed(promised)}; "
            "make its result and the description of it agree"
        )
    return found


def _without_values(key: str, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    call = _call_of(key)
    given = call.ordered(arrays)
    with _untraced():
        promised, _ = call.described(given)
    home = _home(given)
    return [
        torch.empty(each.shape, dtype=getattr(torch, each.name), device=home) for each in promised
    ]


def _mapped(info: Any, axes: Any, key: str, arrays: Sequence[Any]) -> Any:
    """Make the call for each element of a batch."""
    columns = library.mapped(_op, _without_values, info.batch_size, axes, (key, arrays))
    return columns, [0] * len(columns)


def _derived(key: str, function: Callable[[], Function], arrays: Sequence[Any]) -> list[Any]:
    """Call a derivative, which has a key of its own."""
    if key not in _CALLS:
        _CALLS[key] = _Call(key, function(), range(len(arrays)))
    return _op(key, arrays)


class _Operation(torch.autograd.function._SingleLevelFunction):  # type: ignore[misc]
    """The operator for one level of automatic differentiation.

    Transformations of ``torch.func`` go through levels one after the other, which
    ``CustomOpDef.register_autograd`` cannot.
    """

    @staticmethod
    def forward(state: Any, key: str, *arrays: Any) -> Any:
        keys, is_recorded, is_pushed = state
        keys &= torch._C._after_autograd_keyset
        # PyTorch stops recording for this level, and would for those below it.
        with (
            torch.set_grad_enabled(is_recorded),
            torch.autograd.forward_ad._set_fwd_grad_enabled(is_pushed),
            torch._C._AutoDispatchBelowAutograd(),
        ):
            return (*torch.ops.arraybridge.call.default.redispatch(keys, key, [*arrays]),)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.key, *arrays = inputs
        ctx.floats = tuple(map(is_inexact, output))
        library.save(ctx, arrays, output, ctx.floats)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        call, floats = _call_of(ctx.key), ctx.floats
        arrays = [*call.ordered(ctx.saved_tensors), *chosen(gradients, floats)]
        key = f"{ctx.key}'{''.join(str(int(each)) for each in floats)}"
        found = _derived(key, lambda: Pullback(call.function, floats), arrays)
        return None, None, *call.spread(found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call = _call_of(ctx.key)
        arrays = call.ordered(ctx.saved_tensors)
        mask = call.function.mask
        arrays += library.full_tangents(arrays, call.ordered(tangents[2:]), mask)
        found = _derived(f"{ctx.key}*", lambda: Pushforward(call.function), arrays)
        return tuple(spread(found, ctx.floats))


def _differentiable(keys: Any, key: str, arrays: Sequence[Any]) -> list[Any]:
    state = keys, torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()
    with enable_single_level_autograd_function():
        return [*_Operation.apply(state, key, *arrays)]


@functools.cache
def _register() -> Any:
    """Register the operator, and return what PyTorch forgets together with it."""
    name, namespace = "arraybridge::call", torch.library.Library("arraybridge", "FRAGMENT")
    tag = torch.Tag.pt2_compliant_tag
    namespace.define("call(str key, Tensor[] arrays) -> Tensor[]", tags=tag)
    namespace.impl("call", torch._disable_dynamo(_compute), "CompositeExplicitAutograd")
    namespace.impl("call", _differentiable, "Autograd", with_keyset=True)
    torch.library.register_fake(name, _without_values, lib=namespace)
    torch.library.register_vmap(name, _mapped, lib=namespace)
    return namespace
