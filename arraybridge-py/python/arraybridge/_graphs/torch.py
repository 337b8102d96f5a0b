"""PyTorch: its trees and tensors, its derivatives, and a call as an operation of its autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils import _pytree

from .._core import convert  # type: ignore[import-not-found]
from .described import chosen, dtype_name, is_inexact, spread
from .function import Function, Pull, Pullback, Pushforward, Results

__all__: list[str] = []

name = "torch"


def flatten(value: Any) -> tuple[list[Any], Any]:
    return _pytree.tree_flatten(value)


def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
    return _pytree.tree_unflatten([*leaves], tree)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def carries(leaf: Any) -> bool:
    """Return whether a gradient may flow back to an object."""
    if not isinstance(leaf, torch.Tensor):
        return False
    if leaf.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(leaf):
        return True
    forward = torch.autograd.forward_ad
    return forward._current_level >= 0 and forward.unpack_dual(leaf).tangent is not None


def plain(leaf: Any) -> Any:
    return leaf


def of_number(leaf: Any) -> Any:
    return torch.as_tensor(leaf)


def conjugate(array: Any) -> Any:
    return array.conj().resolve_conj() if array.is_complex() else array


def linearize(function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
    # Inside another derivative, operations on these arrays are recorded already.
    again = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    if not again:
        pairs = zip(arrays, function.mask, strict=True)
        arrays = [array.detach().requires_grad_(is_float) for array, is_float in pairs]
    given = chosen(arrays, function.mask)
    with torch.inference_mode(False), torch.enable_grad():
        results, form = function.run(arrays)

    def pull(gradients: Sequence[Any]) -> list[Any]:
        pairs = zip(filter(is_inexact, results), gradients, strict=True)
        recorded = [(each, by) for each, by in pairs if each.requires_grad]
        if not (recorded and given):
            return [torch.zeros_like(each) for each in given]
        outputs, seeds = zip(*recorded, strict=True)
        options = {"retain_graph": True, "materialize_grads": True, "allow_unused": True}
        return [*torch.autograd.grad(outputs, given, seeds, create_graph=again, **options)]

    return (results if again else [each.detach() for each in results]), form, pull


def described(function: Function, arrays: Sequence[Any]) -> Results:
    """Return results without values, and their form."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = [
            torch.empty(tuple(array.shape), dtype=getattr(torch, dtype_name(array.dtype)))
            for array in arrays
        ]
        try:
            return function.run(fakes)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise function.unknown_shape(error) from error
        except Exception as error:
            error.add_note(
                f"{function.name}() was called with tensors without values, to find out the "
                "shapes of its results"
            )
            raise


def embed(function: Function, arrays: Sequence[Any]) -> Results:
    """Return the results of a call that PyTorch records as one operation, and their form."""
    *results, made = Operation.apply(function, torch.is_grad_enabled(), *arrays)
    return results, made.form


class _Made:
    """The values that a recorded call leaves for its derivative."""

    def __init__(self, form: Any, of_results: Sequence[bool], pull: Pull | None) -> None:
        self.form, self.of_results, self.pull = form, tuple(of_results), pull


def _taken(function: Function, arrays: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    home = next((array.device for array in like if is_inexact(array)), None)
    if function.framework == "torch":
        return [array.detach().clone() for array in arrays]
    return [convert(array, "torch", copy=True, device=home) for array in arrays]


def _lent(function: Function, arrays: Sequence[Any]) -> list[Any]:
    arrays = [array.detach() for array in arrays]
    return arrays if function.framework == "torch" else function.lend(arrays)


class Operation(torch.autograd.Function):
    """A call of a function of another framework."""

    @staticmethod
    def forward(function: Function, is_recorded: bool, *arrays: Any) -> Any:
        given, pull = _lent(function, arrays), None
        if is_recorded:
            results, form, pull = function.linearize(given)
        else:
            results, form = function.run(given)
        made = _Made(form, [*map(is_inexact, results)], pull)
        return *_taken(function, results, arrays), made

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.function, _, *arrays = inputs
        *results, ctx.made = output
        save(ctx, arrays, results, ctx.made.of_results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        function, made, arrays = ctx.function, ctx.made, ctx.saved_tensors
        given = chosen(gradients[:-1], made.of_results)
        if made.pull is None or torch.is_grad_enabled():
            found, _ = embed(Pullback(function, made.of_results), [*arrays, *given])
        else:
            found = _taken(function, made.pull(_lent(function, given)), arrays)
        return None, None, *spread(found, function.mask)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        function, arrays = ctx.function, ctx.saved_tensors
        pushforward = Pushforward(function)
        if pushforward.is_by_hand:
            raise function.refused(
                "its derivative is given by hand (defvjp) and has no forward mode; use "
                "backward(), torch.func.grad, vjp or jacrev"
            )
        given = full_tangents(arrays, tangents[2:], function.mask)
        found, _ = embed(pushforward, [*arrays, *given])
        return *spread(found, ctx.made.of_results), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Function, is_recorded: Any, *arrays: Any) -> Any:
        if not info.batch_size:
            raise function.refused("the batch of torch.vmap is empty", "vmap")
        made: Any = None

        def call(*part: Any) -> list[Any]:
            nonlocal made
            *results, made = Operation.apply(function, is_recorded, *part)
            return results

        stacked = mapped(call, call, info.batch_size, in_dims[2:], arrays)
        made = _Made(made.form, made.of_results, None)
        return (*stacked, made), (*[0] * len(stacked), None)


# What operators of PyTorch have in common


def save(ctx: Any, arrays: Sequence[Any], results: Sequence[Any], floats: Sequence[bool]) -> None:
    """Keep the arguments of an operation for its derivatives, of which integers have none."""
    ctx.save_for_backward(*arrays)
    ctx.save_for_forward(*arrays)
    ctx.mark_non_differentiable(*chosen(results, [not is_float for is_float in floats]))


def full_tangents(
    arrays: Sequence[Any], tangents: Sequence[Any], mask: Sequence[bool]
) -> list[Any]:
    """Return a tangent for each argument of floats, also for one that has none."""
    pairs = zip(chosen(arrays, mask), chosen(tangents, mask), strict=True)
    return [torch.zeros_like(array) if given is None else given for array, given in pairs]


def mapped(
    call: Callable[..., Sequence[Any]],
    without_values: Callable[..., Sequence[Any]],
    size: int,
    axes: Sequence[Any],
    arguments: Sequence[Any],
) -> list[Any]:
    """Return the results of a call for each element of a batch, stacked.

    For an empty batch, ``without_values`` returns results like those for an element.
    """

    def part(argument: Any, axis: Any, at: int) -> Any:
        if isinstance(argument, (list, tuple)) and axis is not None:
            return [part(*each, at) for each in zip(argument, axis, strict=True)]
        if axis is None:
            return argument
        # Nothing can be selected from an empty batch.
        shape = argument.movedim(axis, 0).shape[1:]
        return argument.select(axis, at) if size else argument.new_empty(shape)

    made = call if size else without_values
    rows = [
        made(*[part(*each, at) for each in zip(arguments, axes, strict=True)])
        for at in range(size or 1)
    ]
    stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    return stacked if size else [each[:0] for each in stacked]
