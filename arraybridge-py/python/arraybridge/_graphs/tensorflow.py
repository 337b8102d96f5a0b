"""TensorFlow: its trees and tensors, its derivatives, and a call with a custom gradient."""

from __future__ import annotations

import array
import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow
from tensorflow.python.eager.record import could_possibly_record, record_operation
from tensorflow.python.framework import op_def_registry

from .._core import convert  # type: ignore[import-not-found]
from ..exceptions import NotDifferentiableError
from .described import Described, chosen, dtype_name, is_inexact, spread
from .function import Cell, Function, Pull, Pullback, Results, no_derivative, written

__all__: list[str] = []

name = "tensorflow"


class _Leaf:
    """A sequence that is no container, which TensorFlow would open."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _closed(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(_closed, value))
    if type(value) is dict:
        return {key: _closed(each) for key, each in value.items()}
    return _Leaf(value) if isinstance(value, (memoryview, bytearray, array.array, range)) else value


def flatten(value: Any) -> tuple[list[Any], Any]:
    closed = _closed(value)
    leaves = tensorflow.nest.flatten(closed)
    shape = tensorflow.nest.map_structure(lambda leaf: None, closed)
    return [leaf.value if type(leaf) is _Leaf else leaf for leaf in leaves], shape


def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
    return tensorflow.nest.pack_sequence_as(tree, leaves)


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, (tensorflow.Tensor, tensorflow.Variable))


def carries(leaf: Any) -> bool:
    """Return whether a gradient may flow back to an object."""
    if not is_array(leaf):
        return False
    # Integers have no gradient, but what has no values yet is recorded too.
    is_float = leaf.dtype.is_floating or leaf.dtype.is_complex
    return not _has_values(leaf) or (is_float and could_possibly_record())


def is_traced(leaf: Any) -> bool:
    return is_array(leaf) and not _has_values(leaf)


def stopped(leaf: Any) -> Any:
    """Return an array through which no gradient flows back."""
    return tensorflow.stop_gradient(leaf) if is_array(leaf) else leaf


def plain(leaf: Any) -> Any:
    return tensorflow.convert_to_tensor(leaf)


of_number = plain


def conjugate(array: Any) -> Any:
    return tensorflow.math.conj(array) if array.dtype.is_complex else array


def recording() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def cells() -> list[Cell]:
    """Return what any function may change: nothing that TensorFlow tells."""
    return []


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
        pulled = [*map(plain, inner.gradient(inexact, given, zeros, "zero"))]
    return [*map(plain, outer.gradient(pulled, zeros, [*tangents], "zero"))]


def described(function: Function, arrays: Sequence[Any]) -> Results:
    """Return results without values, and their form."""
    run, forms = function.run_bare()
    specs = [tensorflow.TensorSpec(tuple(a.shape), dtype_name(a.dtype)) for a in arrays]
    traced = tensorflow.function(run, autograph=False).get_concrete_function(*specs)
    results = traced.structured_outputs
    if any(each.shape.rank is None or None in each.shape for each in results):
        raise function.unknown_shape()
    function.cells = [
        Cell(lambda v=v: v.numpy(), lambda value, v=v: v.assign(value))  # type: ignore[misc]
        for v in traced.variables
        if not v.trainable
    ]
    program = traced.graph.as_graph_def()
    nodes = [program.node, *[each.node_def for each in program.library.function]]
    if any(node.op in _RANDOM for each in nodes for node in each):
        function.unrepeatable = (
            "it takes random numbers from TensorFlow's global state, and a compiled program calls "
            "it once for its results and once for their gradient; take them from a "
            "tensorflow.random.Generator, or by tensorflow.random.stateless_uniform and the like"
        )
    return results, forms[0]


_RANDOM = {
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
    "ParameterizedTruncatedNormal", "Multinomial", "RandomGamma", "RandomPoisson",
    "RandomPoissonV2", "RandomShuffle",
}  # fmt: skip


def embed(function: Function, arrays: Sequence[Any]) -> Results:
    """Return the results of a call that TensorFlow records as one operation, and their form."""
    for name in written(function.code) if function.is_native else ():
        if isinstance(function.arguments.filled(arrays)[1].get(name), tensorflow.Variable):
            raise function.unknown(
                f"and {name!r}, which it writes to, is a variable, which keeps its value; pass "
                "that, by read_value(), and assign the result"
            )
    arrays = [*map(plain, arrays)]
    if not all(map(_has_values, arrays)):
        return _embed_in_graph(function, arrays)
    forms: list[Any] = []

    @tensorflow.custom_gradient
    def operation(*arrays: Any) -> Any:
        state = function.state()
        results, form, pull = function.recorded(arrays)
        forms.append(form)
        floats = [*map(is_inexact, results)]

        def gradient(*gradients: Any) -> Any:
            given = chosen(gradients, floats)
            if all(map(_has_values, given)) and not could_possibly_record():
                found = _taken(pull(given), chosen(arrays, function.mask))
            else:
                pullback = Pullback(function, floats, state)
                found, _ = embed(pullback, [*arrays, *given, *map(plain, state)])
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
    if any(array.shape.rank is None for array in arrays):
        raise function.unknown(
            "and the number of axes of an argument is not known; set it by tensorflow.ensure_shape"
        )
    promised, form = function.described([*map(Described.of, arrays)])
    floats = [*map(is_inexact, promised)]

    def by_operator() -> list[Any] | None:
        made = _by_operator(function, arrays)
        # The rule says the lengths that are computed, where all others are known.
        if made is not None and is_known:
            for result, each in zip(made, promised, strict=True):
                result.set_shape(each.shape)
        return made

    # The operator of a function without a derivative refuses one itself: a custom gradient would be
    # traced when a model is saved.
    if function.by_hand is None and (made := by_operator()) is not None:
        return made, form

    def compute(*arrays: Any) -> list[Any]:
        state = function.state()
        results, _ = function.made(arrays)
        return [convert(each, "tensorflow", copy=True) for each in (*results, *state)]

    @tensorflow.custom_gradient
    def operation(*arrays: Any) -> Any:
        results, state = by_operator(), []
        if results is None:
            function.expect_operator()
            names = [each.name for each in promised] + ["uint8"] * len(function.state())
            made = _listed(tensorflow.py_function(compute, arrays, names))
            results, state = made[: len(promised)], made[len(promised) :]
            for result, each in zip(results, promised, strict=True):
                result.set_shape(each.shape if is_known else [None] * len(each.shape))
        for each in state:
            each.set_shape([None])

        def gradient(*gradients: Any) -> Any:
            given = chosen(gradients, floats)
            pullback = Pullback(function, floats, state)
            found, _ = embed(pullback, [*arrays, *given, *state])
            return spread(found, function.mask)

        return results, gradient

    return _listed(operation(*arrays)), form


def _by_operator(function: Function, arrays: Sequence[Any]) -> list[Any] | None:
    """Return the results of a Rust function that the program itself calls; None if it cannot."""
    described = [*map(Described.of, arrays)]
    found = function.by_rule(described)
    name = None if found is None else operator(function.code)
    if found is None or name is None:
        return None
    operands, numbers, _, _ = found
    # An array of another framework is a constant of the program.
    own = {id(each): array for each, array in zip(described, arrays, strict=True)}
    given = [
        convert(own.get(id(each), each), "tensorflow", dtype=dtype) for each, dtype in operands
    ]
    # A number that is left out is an array without elements.
    values = {name: [value] for name, _, value in numbers}
    for number, dtype in function.code._operator()[1]:
        wide = {"b": "bool", "f": "float64"}.get(dtype[0], "int64")
        given.append(tensorflow.constant(values.get(number, []), wide))
    dtypes = [dtype for dtype, _ in found[2]]
    graph = tensorflow.compat.v1.get_default_graph()
    made = [*graph.create_op(name, given, dtypes, name=function.name).outputs]
    # A tape that the program itself has open. One outside of it finds the gradient by its name.
    record_operation(name, made, given, functools.partial(_refused(function.code), None))
    return made


def no_operator(code: Any) -> str | None:
    """Return why a Rust function is no operator here; None if it is one."""
    if code._device == "cuda":
        return "it works in CUDA memory, and operators of TensorFlow are for the host"
    refused = f"TensorFlow {tensorflow.__version__} takes none"
    return refused if operator(code) is None else None


_OPERATORS: dict[tuple[str, int], str | None] = {}


def operator(code: Any) -> str | None:
    """Return the name under which TensorFlow knows a Rust function, which a saved program has too.

    None if this TensorFlow takes none.
    """
    key = code._key
    if code._device == "cuda":
        return None
    if key not in _OPERATORS:
        words = re.findall("[A-Za-z0-9]+", "arraybridge_" + code._target()[0])
        name = "".join(word[0].upper() + word[1:] for word in words)
        # A second registration of a name would end the process.
        while op_def_registry.get(name) is not None:
            name += "_"
        ending = "2.dylib" if sys.platform == "darwin" else "so.2"
        file = os.path.join(tensorflow.sysconfig.get_lib(), f"libtensorflow_framework.{ending}")
        try:
            code._register((file, ""), name)
        except RuntimeError:
            _OPERATORS[key] = None
        else:
            _OPERATORS[key] = name
            tensorflow.RegisterGradient(name)(_refused(code))
    return _OPERATORS[key]


def _refused(code: Any) -> Callable[..., Any]:
    """Return the gradient of an operator, which has none."""

    name = code.__name__

    def gradient(operation: Any, *gradients: Any) -> Any:
        raise NotDifferentiableError(
            "tensorflow", "Rust", "gradient", no_derivative(name, code), f"{name}()"
        )

    return gradient


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
