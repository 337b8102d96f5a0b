"""JAX: its trees and arrays, its derivatives, and a call as an operation with a custom VJP."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax

from .._core import convert  # type: ignore[import-not-found]
from ..exceptions import UnexpectedResultError
from .described import Described, chosen, dtype_name, is_inexact, listed, numpy_dtype, spread
from .function import Function, Pull, Pullback, Results

__all__: list[str] = []

name = "jax"


def flatten(value: Any) -> tuple[list[Any], Any]:
    return jax.tree_util.tree_flatten(value)


def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
    return jax.tree_util.tree_unflatten(tree, leaves)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


def carries(leaf: Any) -> bool:
    """Return whether a gradient may flow back to an object."""
    return isinstance(leaf, jax.core.Tracer)


def plain(leaf: Any) -> Any:
    return leaf


def of_number(leaf: Any) -> Any:
    return jax.numpy.asarray(leaf)


def conjugate(array: Any) -> Any:
    return array.conj() if dtype_name(array.dtype).startswith("complex") else array


def linearize(function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
    if function.has_program:
        results, form, pull = linearized(function, *arrays)
        apply = pulled
    else:
        results, form, pull = _linearize(function, *arrays)
        apply = _apply
    if not any(map(carries, arrays)):
        # The memory of the arguments is the caller's, who may write to it now.
        jax.block_until_ready((results, pull))
    return results, form.value, lambda gradients: _ready(apply(pull, tuple(gradients)))


def push(function: Function, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    of_floats = functools.partial(_of_floats, function, arrays)
    _, found, _ = jax.jvp(of_floats, chosen(arrays, function.mask), [*tangents], has_aux=True)
    return _ready(found)


def described(function: Function, arrays: Sequence[Any]) -> Results:
    """Return what describes the results, and their form."""
    run, forms = function.run_bare()
    shaped = [jax.ShapeDtypeStruct(tuple(a.shape), numpy_dtype(a)) for a in arrays]
    try:
        return jax.eval_shape(run, *shaped), forms[0]
    except jax.errors.ConcretizationTypeError as error:
        raise function.unknown_shape(error) from error


def embed(function: Function, arrays: Sequence[Any]) -> Results:
    """Return the results of a call that JAX records as one operation, and their form."""
    # No result of the operation, since JAX may trace that twice and compares the two.
    forms: list[Any] = []

    def at_home(results: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        bound = (array for array in arrays if _home(array) and is_inexact(array))
        return _taken(results, [next(bound, None)] * len(results))

    @jax.custom_vjp
    def primal(*arrays: Any) -> Any:
        if not any(map(carries, arrays)):
            results, form = function.run(function.lend(arrays))
            forms.append(form)
            return at_home(results, arrays)
        promised, form = function.described(arrays)
        forms.append(form)
        shaped = [jax.ShapeDtypeStruct(e.shape, jax.numpy.dtype(e.name)) for e in promised]
        call = _Call(function, promised)
        return jax.pure_callback(call, shaped, *arrays, vmap_method="sequential")

    def forward(*arrays: Any) -> Any:
        if any(map(carries, arrays)):
            results, pull = primal(*arrays), None
        else:
            found, form, pull = function.linearize(function.lend(arrays))
            forms.append(form)
            results = at_home(found, arrays)
        return results, (arrays, _Static((pull, tuple(map(is_inexact, results)))))

    def backward(kept: Any, gradients: Any) -> Any:
        arrays, made = kept
        pull, floats = made.value
        given = chosen(gradients, floats)
        if pull is None or any(map(carries, (*arrays, *given))):
            found, _ = embed(Pullback(function, floats), [*arrays, *given])
        else:
            found = _taken(pull(function.lend(given)), chosen(arrays, function.mask))
        return tuple(spread(found, function.mask))

    primal.defvjp(forward, backward)
    return primal(*arrays), forms[-1]


def _taken(results: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    pairs = zip(results, like, strict=True)
    return [convert(each, "jax", copy=True, device=_home(other)) for each, other in pairs]


def _home(array: Any) -> Any:
    """Return the device that an array is bound to; None if it meets arrays of any device."""
    if not is_array(array) or carries(array):
        return None
    devices = array.devices()
    return next(iter(devices)) if array._committed and len(devices) == 1 else None


class _Call:
    """A call that a compiled program of JAX makes."""

    def __init__(self, function: Function, promised: list[Described]) -> None:
        self.function, self.promised = function, promised

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Call):
            return False
        return (self.function, self.promised) == (other.function, other.promised)

    def __hash__(self) -> int:
        return hash(self.function)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        results, _ = self.function.run(self.function.lend(arrays))
        found = tuple(convert(each, "numpy") for each in results)
        made = [*map(Described.of, found)]
        if made != self.promised:
            raise UnexpectedResultError(
                f"{self.function.name}() returned {listed(made)}, but it was to return "
                f"{listed(self.promised)}; the shapes of its results may depend on shapes only"
            )
        return found


@jax.tree_util.register_static
class _Static:
    """An object without arrays among arrays."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _of_floats(function: Function, arrays: Sequence[Any], *given: Any) -> Any:
    """The function of the arrays of floats alone, which JAX differentiates."""
    full = zip(arrays, spread(given, function.mask), function.mask, strict=True)
    results, form = function.run([own if is_float else array for array, own, is_float in full])
    floats = [*map(is_inexact, results)]
    rest = [None if is_float else each for each, is_float in zip(results, floats, strict=True)]
    return chosen(results, floats), (rest, _Static(form))


def _linearize(function: Function, *arrays: Any) -> tuple[list[Any], Any, Any]:
    of_floats = functools.partial(_of_floats, function, arrays)
    inexact, pull, (rest, form) = jax.vjp(of_floats, *chosen(arrays, function.mask), has_aux=True)
    found = iter(inexact)
    return [next(found) if each is None else each for each in rest], form, pull


def _apply(pull: Any, gradients: tuple[Any, ...]) -> Any:
    return pull([*gradients])


# The programs of functions that JAX has compiled.
linearized = jax.jit(_linearize, static_argnums=0)
pulled = jax.jit(_apply)


def _ready(arrays: Any) -> list[Any]:
    return [*(arrays if any(map(carries, arrays)) else jax.block_until_ready(arrays))]
