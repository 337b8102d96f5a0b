"""Gradients that flow through functions of other frameworks.

The caller's framework records a call as one operation (``embed``). The derivative of this operation
is that of the declared framework (``linearize``), or one that is given by hand. It is a function of
the declared framework itself (``Pullback``), so the caller's framework records it as an operation
too, and every derivative has a derivative.

Arrays pass to the function by sharing memory and come back as copies: the caller may write to what
it gets, and JAX and TensorFlow rely on memory that nobody writes to.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

from .._core import _known  # type: ignore[import-not-found]
from .._declared.options import OPTIONS
from ..exceptions import MemoryConversionError, NotDifferentiableError
from .described import HERE, Arguments, chosen, is_inexact
from .function import OWN, RETURN, Function, lend, library, written
from .modes import ready

__all__: list[str] = []

# Declarations


def check(framework: str, name: str, options: dict[str, Any]) -> None:
    """Check that a declaration goes with ``differentiable=True``."""
    if framework not in OWN:
        raise ValueError(
            f"{name}() cannot be differentiable=True: {framework} has no gradients; give the "
            'derivative by hand, with output_type="input" and defvjp(forward, backward)'
        )
    # 0 is a device.
    names = sorted(option.name for option in OPTIONS if not option.takes_gradients)
    wrong = [o for o in names if options.get(o) is not None and options[o] is not False]
    for option, value in (("output_type", "input"), ("dtype_conversion", "native")):
        given = options.get(option)
        if given is not None and getattr(given, "value", given) != value:
            wrong.append(f"{option}={given!r}")
    if wrong:
        raise ValueError(
            f"{name}(): differentiable=True gives results to the caller's framework as they are "
            f"(output_type and dtype_conversion follow from that); leave out {', '.join(wrong)}"
        )


def rule(
    function: tuple[Any, str, str],
    gives_input: bool,
    forward: Any,
    backward: Any,
    result: Any,
) -> tuple[Any, Any, Any]:
    """Return a derivative that is given by hand."""
    code, framework, name = function
    if framework in OWN and inspect.isfunction(code):
        raise TypeError(
            f"{name}() is a function of {framework}, which has gradients of its own: declare it "
            "with differentiable=True"
        )
    if names := written(code):
        raise TypeError(f"{name}() writes to {names[0]!r}, so no gradient flows back; {RETURN}")
    if not gives_input:
        raise TypeError(
            f'{name}() has to be declared with output_type="input": with a gradient or without '
            "one, its results are those of the caller's framework"
        )
    for what, given in (("forward", forward), ("backward", backward), ("result", result)):
        if not (callable(given) or (what == "result" and given is None)):
            raise TypeError(f"{what} of {name}() must be a function, not {given!r}")
    return forward, backward, result


# Calls


def call(
    function: tuple[Any, str, str, tuple[Any, Any, Any] | None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    added: tuple[Any, bool],
) -> Any:
    """Return the result of a call; ``NotImplemented`` if no gradient flows through it."""
    code, framework, name, by_hand = function
    if by_hand is not None and kwargs:
        args, kwargs = as_positional(code, args, kwargs)
    given = (args, kwargs or {})
    callers = []
    for caller in map(library, ready()):
        if caller.name == framework and by_hand is None:
            continue
        leaves, tree = caller.flatten(given)
        if any(map(caller.carries, leaves)):
            callers.append((caller, leaves, tree))
    if not callers:
        return NotImplemented
    if len(callers) > 1:
        names = [caller.name for caller, _, _ in callers]
        raise NotDifferentiableError(
            names[0], names[1], "gradient",
            f"gradients of {' and '.join(names)} meet in one call; detach the arrays of one",
            f"{name}()",
        )  # fmt: skip
    for what, value in zip(("dtype_conversion", "slice_by_slice", "out"), added, strict=True):
        if value and getattr(value, "value", value) != "native":
            raise TypeError(f"{name}(): a call through which a gradient flows takes no {what}")
    if (made := _in_program_of_torch(code, *given)) is not NotImplemented:
        return made
    return _recorded(function, given, callers[0])


def in_program(function: tuple[Any, str, str, bool], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call with arrays without values; ``NotImplemented`` without one.

    The function is a Rust function with a rule for the shapes of its results. The arrays are traced
    ones of JAX or TensorFlow, or tensors of PyTorch without values.
    """
    code, framework, name, stops = function
    if (made := _in_program_of_torch(code, (), kwargs)) is not NotImplemented:
        return made
    for compiler in ("jax", "tensorflow"):
        if compiler not in ready():
            continue
        caller = library(compiler)
        leaves, tree = caller.flatten(((), kwargs))
        if any(map(caller.is_traced, leaves)):
            if stops:
                leaves = [caller.stopped(leaf) for leaf in leaves]
            return _recorded((code, framework, name, None), ((), kwargs), (caller, leaves, tree))
    return NotImplemented


def _in_program_of_torch(code: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a call by an operator of PyTorch; ``NotImplemented`` if it is none."""
    if "torch" not in ready() or not getattr(code, "_is_native", False):
        return NotImplemented
    has_values = library("torch").has_values
    if all(map(has_values, (*args, *kwargs.values()))):
        return NotImplemented
    from . import native

    return native.in_program(code, args, kwargs)


def _recorded(
    function: tuple[Any, str, str, tuple[Any, Any, Any] | None],
    given: tuple[Any, Any],
    found: tuple[Any, list[Any], Any],
) -> Any:
    """Return the result of a call that a caller's framework records as one operation."""
    code, framework, name, by_hand = function
    caller, leaves, tree = found
    places = _Places(name, code, given, caller)
    is_own = [caller.is_array(leaf) for leaf in leaves]
    rest = []
    for leaf, own in zip(leaves, is_own, strict=True):
        rest.append(HERE if own else _constant(leaf, framework, places))
    arrays = chosen(leaves, is_own)
    # What carries no gradient is not differentiated.
    mask = [caller.carries(array) and is_inexact(array) for array in arrays]
    made = Function(code, framework, name, by_hand, Arguments(caller, tree, rest), mask)
    try:
        results, form = caller.embed(made, arrays)
    except MemoryConversionError as error:
        places.name(error)
        raise
    return form(results)


def as_positional(code: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments by position, since ``backward`` gives one gradient for each parameter.

    Without a signature, they stay as given.
    """
    try:
        bound = inspect.signature(code).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    return bound.args, bound.kwargs


def _constant(leaf: Any, framework: str, places: _Places) -> Any:
    """Return an argument that is no array of the caller's framework."""
    known = _known(leaf)
    if known is None or known[1] is not None or known[0] == framework:
        return leaf
    try:
        return lend(leaf, framework, places.function_name)
    except MemoryConversionError as error:
        places.name(error, leaf)
        raise


class _Places:
    """The names of arguments, for errors."""

    def __init__(self, name: str, function: Any, given: Any, caller: Any) -> None:
        self.function, self.function_name, self.given, self.caller = function, name, given, caller

    def name(self, error: MemoryConversionError, leaf: Any = None) -> None:
        """Complete an error that names no place yet."""
        if error.place is not None:
            return
        place = f"{self.function_name}()"
        # The error of an array of the caller's has a note of its number among them.
        number = getattr(error, "_argument", None)
        args, kwargs = self.given
        with contextlib.suppress(TypeError, ValueError):
            names = _positional_names(self.function, len(args))
            # A framework may flatten them in another order than they were given in.
            keywords, _ = self.caller.flatten({name: name for name in kwargs})
            found = [*zip(names, args, strict=True), *[(name, kwargs[name]) for name in keywords]]
            count = 0
            for name, value in found:
                leaves, _ = self.caller.flatten(value)
                own = sum(map(self.caller.is_array, leaves))
                is_here = any(each is leaf for each in leaves)
                if number is not None:
                    is_here = count <= number < count + own
                place += f": argument '{name}'" * is_here
                count += own
        error.place = place
        error.args = (*error.args[:4], place)


def _positional_names(function: Any, count: int) -> list[str]:
    """Return the names of the parameters that take so many positional arguments."""
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return [*names, *[f"*{name}"] * (count - len(names))][:count]
        names.append(name)
    return names[:count]
