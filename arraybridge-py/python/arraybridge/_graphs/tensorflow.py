"""TensorFlow: its trees and tensors, its derivatives, and a call with a custom gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow
from tensorflow.python.eager.record import could_possibly_record

from .._core import convert  # type: ignore[import-not-found]
from .described import Described, chosen, dtype_name, is_inexact, spread
from .function import Function, Pull, Pullback, Results

__all__: list[str] = []

name = "tensorflow"


def flatten(value: Any) -> tuple[list[Any], Any]:
    shape = tensorflow.nest.map_structure(lambda leaf: None, value)
    return tensorflow.nest.flatten(value), shape


def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
    return tensorflow.nest.pack_sequence_as(tree, leaves)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, (tensorflow.Tensor, tensorflow.Variable))


def carries(leaf: Any) -> bool:
    """Return whether a gradient may flow back to an object."""
    return is_array(leaf) and (leaf.dtype.is_floating or leaf.dtype.is_complex)


def plain(leaf: Any) -> Any:
    return tensorflow.convert_to_tensor(leaf)


of_number = plain


def conjugate(array: Any) -> Any:
    return tensorflow.math.conj(array) if array.dtype.is_complex else array


def linearize(function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
    given = chosen(arrays, function.mask)
    with tensorflow.GradientTape(persistent=True) as tape:
        tape.watch(given)
        results, form = function.run(arrays)

    def pull(gradients: Sequence[Any]) -> list[Any]:
        inexact = [*filter(is_inexact, results)]
        return [*map(plain, tape.gradient(inexact, given, [*gradients], "zero"))]

    return results, form, pull


def push(function: Function, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    # A `ForwardAccumulator` is wrong below another one. Pulling back is linear in the gradients,
    # and the derivative of that pushes forward.
    given = chosen(arrays, function.mask)
    with tensorflow.GradientTape() as outer:
        with tensorflow.GradientTape() as inner:
            inner.watch(given)
            results, _ = function.run(arrays)
            inexact = [*filter(is_inexact, results)]
        zeros = [*map(tensorflow.zeros_like, inexact)]
        outer.watch(zeros)
        pulled = inner.gradient(inexact, given, zeros, "zero")
    return [*map(plain, outer.gradient(pulled, zeros, [*tangents], "zero"))]


def described(function: Function, arrays: Sequence[Any]) -> Results:
    """Return results without values, and their form."""
    run, forms = function.run_bare()
    specs = [tensorflow.TensorSpec(tuple(a.shape), dtype_name(a.dtype)) for a in arrays]
    traced = tensorflow.function(run, autograph=False).get_concrete_function(*specs)
    results = traced.structured_outputs
    if any(each.shape.rank is None or None in each.shape for each in results):
        raise function.unknown_shape()
    return results, forms[0]


def embed(function: Function, arrays: Sequence[Any]) -> Results:
    """Return the results of a call that TensorFlow records as one operation, and their form."""
    if not all(map(_has_values, arrays)):
        return _embed_in_graph(function, arrays)
    forms: list[Any] = []

    @tensorflow.custom_gradient
    def operation(*arrays: Any) -> Any:
        results, form, pull = function.linearize(function.lend(arrays))
        forms.append(form)
        floats = [*map(is_inexact, results)]

        def gradient(*gradients: Any) -> Any:
            given = chosen(gradients, floats)
            if all(map(_has_values, given)) and not could_possibly_record():
                found = _taken(pull(function.lend(given)), chosen(arrays, function.mask))
            else:
                found, _ = embed(Pullback(function, floats), [*arrays, *given])
            return spread(found, function.mask)

        return _taken(results, [lead] * len(results)), gradient

    lead = next(filter(is_inexact, arrays))
    # TensorFlow passes the results on by an operation.
    with tensorflow.device(_home(lead)):
        results = operation(*arrays)
    return _listed(results), forms[0]


def _embed_in_graph(function: Function, arrays: Sequence[Any]) -> Results:
    # A dimension may be unknown, as that of a batch. Dtypes and the form do not depend on it.
    is_known = all(array.shape.is_fully_defined() for array in arrays)
    promised, form = function.described([*map(Described.of, arrays)])
    floats = [*map(is_inexact, promised)]

    def compute(*arrays: Any) -> list[Any]:
        results, _ = function.run(function.lend(arrays))
        return [convert(each, "tensorflow", copy=True) for each in results]

    @tensorflow.custom_gradient
    def operation(*arrays: Any) -> Any:
        results = tensorflow.py_function(compute, arrays, [each.name for each in promised])
        for result, each in zip(results, promised, strict=True):
            result.set_shape(each.shape if is_known else [None] * len(each.shape))

        def gradient(*gradients: Any) -> Any:
            given = chosen(gradients, floats)
            found, _ = embed(Pullback(function, floats), [*arrays, *given])
            return spread(found, function.mask)

        return results, gradient

    return _listed(operation(*arrays)), form


def _has_values(array: Any) -> bool:
    return hasattr(array, "numpy")


def _taken(results: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    pairs = zip(results, like, strict=True)
    return [convert(each, "tensorflow", copy=True, device=_home(other)) for each, other in pairs]


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def _home(array: Any) -> str:
    """Return the device of a tensor, as conversions name it."""
    return str(array.backing_device.rpartition("device:")[2].lower())
