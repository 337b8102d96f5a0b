"""PyTorch: its trees and tensors, its derivatives, and a call as an operation of its autograd."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .._core import convert  # type: ignore[import-not-found]
from .described import chosen, dtype_name, is_inexact, spread
from .function import Cell, Function, Pull, Pullback, Pushforward, Results, first_line

__all__: list[str] = []

name = "torch"


def flatten(value: Any) -> tuple[list[Any], Any]:
    return _pytree.tree_flatten(value)


def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
    return _pytree.tree_unflatten([*leaves], tree)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def no_operator(code: Any) -> str | None:
    """Return why a Rust function is no operator here; None if it is one."""
    from . import native

    return native.REFUSED[code._key] if operator(code) is None else None


def operator(code: Any) -> Any:
    """Return the operator of a Rust function; None if this PyTorch takes none."""
    from . import native

    return native.operator(native.NATIVE[id(code)])


def has_values(leaf: Any) -> bool:
    """Return whether an argument is none of a program that is being written."""
    if not isinstance(leaf, torch.Tensor):
        return not hasattr(leaf, "without_values")
    is_functional = torch._is_functional_tensor(leaf) or isinstance(leaf, FunctionalTensor)
    return not (is_functional or isinstance(leaf, FakeTensor))


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


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Record operations, whatever the caller has switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def cells() -> list[Cell]:
    """Return what any function may change: the states of random numbers."""
    found = [Cell(lambda: torch.get_rng_state().numpy(), lambda v: torch.set_rng_state(_of(v)))]
    for at in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        found.append(
            Cell(
                lambda at=at: torch.cuda.get_rng_state(at).numpy(),  # type: ignore[misc]
                lambda v, at=at: torch.cuda.set_rng_state(_of(v), at),  # type: ignore[misc]
            )
        )
    return found


_of = torch.from_numpy


def _cell(tensor: Any) -> Cell:
    """Return a tensor that a function writes to, as bytes."""

    def write(value: Any) -> None:
        with torch.no_grad():
            tensor.copy_(_of(value).view(tensor.dtype).reshape(tensor.shape))

    def read() -> Any:
        return tensor.detach().cpu().contiguous().clone().reshape(-1).view(torch.uint8).numpy()

    return Cell(read, write)


class _Writes(TorchDispatchMode):
    """Finds the tensors with values that a function writes to, and gives their values back."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, tuple[Any, Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = {argument.name: argument for argument in func._schema.arguments}
        given = {**dict(zip(named, args, strict=False)), **(kwargs or {})}
        for name, value in given.items():
            alias = named[name].alias_info
            # The schema of `native_batch_norm` does not say what it writes to.
            if name in ("running_mean", "running_var") or (alias and alias.is_write):
                for each in value if isinstance(value, (tuple, list)) else (value,):
                    self._keep(each)
        return func(*args, **(kwargs or {}))

    def _keep(self, tensor: Any) -> None:
        is_real = isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor)
        if is_real and id(tensor) not in self.found:
            with _disable_current_modes():
                self.found[id(tensor)] = tensor, tensor.detach().clone()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        with _disable_current_modes(), torch.no_grad():
            for tensor, values in self.found.values():
                tensor.copy_(values)


def linearize(function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
    # Inside another derivative, operations on these arrays are recorded already.
    again = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    if not again:
        pairs = zip(arrays, function.mask, strict=True)
        arrays = [array.detach().requires_grad_(is_float) for array, is_float in pairs]
    given = chosen(arrays, function.mask)
    with recording():
        try:
            results, form = function.run(arrays)
        except RuntimeError as error:
            if "Inference tensors cannot be" not in str(error):
                raise
            raise function.refused(f"{_INFERENCE} ({first_line(error)})") from error
    if any(each.is_inference() for each in filter(is_inexact, results)):
        raise function.refused(_INFERENCE)

    def pull(gradients: Sequence[Any]) -> list[Any]:
        pairs = zip(filter(is_inexact, results), gradients, strict=True)
        recorded = [(each, by) for each, by in pairs if each.requires_grad]
        if not (recorded and given):
            return [torch.zeros_like(each) for each in given]
        outputs, seeds = zip(*recorded, strict=True)
        options = {"retain_graph": True, "materialize_grads": True, "allow_unused": True}
        more = again or (torch.is_grad_enabled() and any(seed.requires_grad for seed in seeds))
        # The casts of autocast are recorded.
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return [*torch.autograd.grad(outputs, given, seeds, create_graph=more, **options)]

    return (results if again else [each.detach() for each in results]), form, pull


_INFERENCE = (
    "it uses or returns a tensor that was made under inference_mode, through which no gradient "
    "flows; make it outside of inference_mode, or use its clone()"
)


def described(function: Function, arrays: Sequence[Any]) -> Results:
    """Return results without values, and their form."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with recording(), fake, torch.no_grad(), _Writes() as writes:
        fakes = [
            torch.empty(tuple(array.shape), dtype=getattr(torch, dtype_name(array.dtype)))
            for array in arrays
        ]
        try:
            found = function.run(fakes)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise function.unknown_shape(error) from error
        except Exception as error:
            error.add_note(
                f"{function.name}() was called with tensors without values, to find out the "
                "shapes of its results"
            )
            raise
    function.cells = [*cells(), *[_cell(tensor) for tensor, _ in writes.found.values()]]
    return found


def embed(function: Function, arrays: Sequence[Any]) -> Results:
    """Return the results of a call that PyTorch records as one operation, and their form."""
    try:
        *results, made = Operation.apply(function, torch.is_grad_enabled(), *arrays)
    except RuntimeError as error:
        if "Functionalize rule for custom_function_call" not in str(error):
            raise
        why = "PyTorch cannot functionalize what another framework computes; call it outside"
        raise function.refused(why, "functionalize") from error
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


def _detached(arrays: Sequence[Any]) -> list[Any]:
    return [array.detach() for array in arrays]


class Operation(torch.autograd.Function):
    """A call of a function of another framework."""

    @staticmethod
    def forward(function: Function, is_recorded: bool, *arrays: Any) -> Any:
        given, pull = _detached(arrays), None
        if is_recorded:
            results, form, pull = function.recorded(given)
        else:
            results, form = function.made(given)
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
        again = made.pull is None or torch.is_grad_enabled()

        def pulled(*given: Any) -> list[Any]:
            if again:
                return embed(Pullback(function, made.of_results), [*arrays, *given])[0]
            return _taken(function, made.pull(_detached(given)), arrays)

        return None, None, *spread(by_row(pulled, given), function.mask)

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
        found = by_row(lambda *given: embed(pushforward, [*arrays, *given])[0], given)
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


def by_row(call: Callable[..., list[Any]], arrays: Sequence[Any]) -> list[Any]:
    """Return the results of a call for each row of arrays that autograd itself has batched.

    It does so for ``is_grads_batched`` and ``vectorize``, by other means than ``torch.vmap``.
    """
    is_batched = torch._C._functorch.is_legacy_batchedtensor
    if not any(map(is_batched, arrays)):
        return call(*arrays)
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    axes = [0 if is_batched(array) else None for array in arrays]
    pairs = zip(arrays, axes, strict=True)
    bare = [a if axis is None else torch._remove_batch_dim(a, level, 1, 0) for a, axis in pairs]
    size = next(array.shape[0] for array, axis in zip(bare, axes, strict=True) if axis == 0)
    columns = mapped(lambda *row: by_row(call, row), call, size, axes, bare)
    return [torch._add_batch_dim(column, 0, level) for column in columns]


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
