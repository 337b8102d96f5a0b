"""A declared function and its derivatives, as a framework that differentiates sees them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from .._core import _beside, _known, _narrow, convert  # type: ignore[import-not-found]
from ..exceptions import (
    CopyRequiredError,
    MemoryConversionError,
    NotDifferentiableError,
    UnexpectedResultError,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)
from .described import (
    HERE,
    Arguments,
    Call,
    Described,
    by_argument,
    chosen,
    completed,
    dtype_name,
    is_inexact,
    numpy_dtype,
    spread,
)
from .modes import Modes

__all__: list[str] = []

OWN = ("torch", "jax", "tensorflow")
"""The frameworks with gradients, each with a module here."""

RETURN = "give the derivative of a function that returns a new array"
"""The way out for a function that writes."""

NUMBERS = (bool, int, float, complex)

Results = tuple[list[Any], Any]
Pull = Callable[[Sequence[Any]], list[Any]]


class Cell(NamedTuple):
    """Something that a call may change besides its results, such as the state of random numbers."""

    read: Callable[[], Any]
    """Returns its values, as a new NumPy array."""
    write: Callable[[Any], Any]


@functools.cache
def library(framework: str) -> Any:
    """Return the module here of a framework with gradients, which imports the framework."""
    return importlib.import_module(f"{__package__}.{framework}")


class Function(Call):
    """A function of the arrays of one framework, in a list, that returns such a list.

    The first list has an array for each place of ``mask``, true where a gradient is wanted.
    Compiled programs are found again by equal functions.
    """

    def __init__(
        self,
        code: Any,
        framework: str,
        name: str,
        by_hand: Any,
        arguments: Arguments,
        mask: Sequence[bool],
    ) -> None:
        self.code, self.framework, self.name, self.by_hand = code, framework, name, by_hand
        self.arguments, self.mask, self.caller = arguments, tuple(mask), arguments.library
        # A Rust function with a rule for the shapes of its results.
        self.is_native = getattr(code, "_is_native", False)
        self.modes = Modes()
        # What a second pass has to find as the first one did, and why there can be none.
        self.cells: list[Cell] = library(framework).cells() if framework in OWN else []
        # JAX's gradients of complex numbers are the conjugates of those of the others.
        self.conjugates = (self.caller.name == "jax") != (framework == "jax")
        jax = sys.modules.get("jax") if framework == "jax" else None
        is_compiled = jax is not None and isinstance(code, jax.stages.Wrapped)
        self.has_program = is_compiled and arguments.is_plain

    @property
    def _key(self) -> tuple[Any, ...]:
        code = self.arguments, id(self.code), self.mask
        return code, self.framework, self.by_hand, self.modes

    unrepeatable: str | None = None

    # For the caller's arrays, in the modes of the call

    @contextlib.contextmanager
    def as_called(self, is_recorded: bool) -> Iterator[None]:
        own = is_recorded and self.framework in OWN
        with self.modes.on(), library(self.framework).recording() if own else _NOTHING:
            yield

    def made(self, arrays: Sequence[Any]) -> Results:
        """Return the results and their form."""
        with self.as_called(isinstance(self, _Derived)):
            results, form = self.run(self.lend(arrays))
        is_torch = self.framework == "torch"
        return [each.detach() for each in results] if is_torch else results, form

    def recorded(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        """Do what ``linearize`` does. Gradients are those of the caller's framework too."""
        with self.as_called(True):
            results, form, pull = self.linearize(self.lend(arrays))

        def back(gradients: Sequence[Any]) -> list[Any]:
            with self.as_called(True):
                return pull(self.lend(gradients))

        return results, form, back

    # What a call may change, for a second pass

    def state(self) -> list[Any]:
        """Return what a second pass needs to find as it is now: at most one array, of bytes."""
        if not self.cells:
            return []
        found = [numpy.asarray(cell.read()).reshape(-1).view("uint8") for cell in self.cells]
        return [numpy.concatenate(found)]

    @contextlib.contextmanager
    def again(self, state: Any) -> Iterator[None]:
        """Make a pass in a state from before, and leave no trace of it."""
        now = [cell.read() for cell in self.cells]
        rest = memoryview(numpy.asarray(convert(state, "numpy")).tobytes())
        for cell, value in zip(self.cells, now, strict=True):
            was, rest = rest[: value.nbytes], rest[value.nbytes :]
            cell.write(numpy.frombuffer(was, value.dtype).reshape(value.shape).copy())
        try:
            yield
        finally:
            for cell, value in zip(self.cells, now, strict=True):
                cell.write(value)

    def refused(self, why: str, method: str = "gradient") -> NotDifferentiableError:
        """Return the error of a function through which no derivative can flow."""
        return NotDifferentiableError(
            self.caller.name, self.framework, method, why, f"{self.name}()"
        )

    def unknown(self, why: str) -> UnsupportedArrayError:
        """Return the error of a result that is not known before there are values."""
        return UnsupportedArrayError(
            self.caller.name, self.framework, "gradient",
            f"the caller compiles its program before there are values, {why}",
            f"{self.name}()",
        )  # fmt: skip

    def unknown_shape(self, error: BaseException | None = None) -> UnsupportedArrayError:
        told = f" ({first_line(error)})" if error is not None and str(error) else ""
        way = f"; describe it: arraybridge.jax_callback({self.name}, result=..)"
        way *= self.caller.name == "jax"
        return self.unknown(f"and the shape of the result depends on them{told}{way}")

    def lend(self, arrays: Sequence[Any]) -> list[Any]:
        """Return arrays of the caller's framework as arrays of the function's, without copies."""
        lent = []
        for number, array in enumerate(arrays):
            try:
                lent.append(lend(self.caller.plain(array), self.framework, self.name))
            except MemoryConversionError as error:
                error._argument = number  # type: ignore[attr-defined]
                raise
        return lent

    def run(self, arrays: Sequence[Any]) -> Results:
        """Return the results and the function that gives them their form."""
        # Inference tensors do not count their writes.
        watched = [a for a in arrays if self.framework == "torch" and not a.is_inference()]
        versions = [array._version for array in watched]
        args, kwargs = self.arguments.filled(arrays)
        found = self.flat(self.beside(arrays, lambda: self.code(*args, **kwargs)))
        if versions != [array._version for array in watched]:
            raise self.refused(
                "it writes to an argument, whose memory is the caller's; let it write to a clone()"
            )
        return found

    @staticmethod
    def beside(arrays: Sequence[Any], call: Callable[[], Any]) -> Any:
        """Return the result of a call that is made on the device of its first array."""
        return _beside(arrays[0], call) if arrays else call()

    def run_bare(self) -> tuple[Callable[..., list[Any]], list[Any]]:
        """Return a function of arrays that returns arrays alone, and a list that gets the form."""
        forms: list[Any] = []

        def run(*arrays: Any) -> list[Any]:
            results, form = self.run(arrays)
            forms.append(form)
            return results

        return run, forms

    def flat(self, result: Any) -> Results:
        own = library(self.framework) if self.framework in OWN else self.caller
        leaves, tree = own.flatten(result)
        return [*map(self.as_array, leaves)], Form(own, tree)

    def as_array(self, leaf: Any) -> Any:
        if self.framework in OWN:
            own = library(self.framework)
            if own.is_array(leaf):
                return own.plain(leaf)
            if type(leaf) in NUMBERS or isinstance(leaf, numpy.generic):
                return own.of_number(leaf)
        elif isinstance(leaf, (*NUMBERS, numpy.generic)):
            return numpy.asarray(leaf)
        elif (known := _known(leaf)) is not None and known[1] is None:
            return leaf
        raise UnexpectedResultError(
            f"{self.name}() returned {leaf!r}, but through a function with a gradient only arrays "
            "come back; return arrays, alone or in tuples, lists and dictionaries"
        )

    def linearize(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        """Return the results, their form, and the function that pulls gradients back.

        That takes a gradient for each result of floats, and returns one for each such argument.
        """
        if self.by_hand is not None:
            results, form, pull = self.linearize_by_hand(arrays)
        elif any(self.mask):
            self.expect_derivative()
            results, form, pull = library(self.framework).linearize(self, arrays)
        else:
            return *self.run(arrays), lambda gradients: []
        return results, form, self.conjugated(pull)

    def by_rule(self, arrays: Sequence[Described]) -> Any:
        """Return what a Rust function with a rule takes and gives; None if that is not known."""
        if not self.is_native:
            return None
        args, kwargs = self.arguments.filled(arrays)
        found = self.code._describe(*args, **kwargs)
        for at in () if found is None else self.code._operator()[3]:
            if not isinstance(found[0][at][0], Described):
                name = written(self.code)[0]
                raise self.unknown(
                    f"and {name!r}, which it writes to, is no array of the program; pass one"
                )
        return found

    def expect_operator(self) -> None:
        """Refuse a Rust function that writes to an argument, where its operator is not called."""
        if self.is_native and (names := written(self.code)):
            raise UnsupportedArrayError(
                self.caller.name, self.framework, "trace",
                f"it writes to {names[0]!r}, and here a program cannot call it itself; call a "
                "function that returns a new array",
                f"{self.name}()",
            )  # fmt: skip

    def expect_derivative(self) -> None:
        """Refuse a Rust function whose derivative nobody has given."""
        if self.is_native and self.by_hand is None:
            raise self.refused(no_derivative(self.name, self.code))

    def conjugated(self, pull: Pull) -> Pull:
        if not self.conjugates:
            return pull
        own = self.framework in OWN
        conjugate = library(self.framework).conjugate if own else _conjugate
        return lambda gradients: [*map(conjugate, pull([*map(conjugate, gradients)]))]

    def linearize_by_hand(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        forward, backward, _ = self.by_hand
        args, kwargs = self.arguments.filled(arrays)
        made = self.beside(arrays, lambda: forward(*args, **kwargs))
        if not (isinstance(made, tuple) and len(made) == 2):
            raise UnexpectedResultError(
                f"forward of {self.name}() has to return two values: the result of the function, "
                "and what backward needs"
            )
        result, needed = made
        results, form = self.flat(result)

        def pull(gradients: Sequence[Any]) -> list[Any]:
            # Integers have no gradient.
            seeds = form(spread(gradients, [*map(is_inexact, results)]))
            given = self.beside(arrays, lambda: backward(needed, seeds))
            return self.by_array(given, args, kwargs, arrays)

        return results, form, pull

    def by_array(self, given: Any, args: Any, kwargs: Any, arrays: Sequence[Any]) -> list[Any]:
        """Return the gradients of the arguments of floats, from the result of ``backward``."""
        flatten, backward = self.caller.flatten, f"backward of {self.name}()"
        leaves: list[Any] = []
        for argument, each in zip(args, by_argument(given, args, backward), strict=True):
            count = len(flatten(argument)[0])
            parts = [None] * count if each is None else flatten(each)[0]
            if len(parts) != count:
                raise UnexpectedResultError(
                    f"{backward} returned {len(parts)} gradients for an argument with {count} "
                    "arrays; return one for each"
                )
            leaves += parts
        leaves += [None] * len(flatten(kwargs)[0])
        own = chosen(leaves, [place is HERE for place in self.arguments.rest])
        pairs = zip(chosen(own, self.mask), chosen(arrays, self.mask), strict=True)
        return [self.as_gradient(each, array) for each, array in pairs]

    def as_gradient(self, gradient: Any, array: Any) -> Any:
        """Return what ``backward`` gave for an argument as its gradient."""
        # NumPy's are also those of a framework without numbers of its own.
        if gradient is None:
            gradient = numpy.zeros(tuple(array.shape), numpy_dtype(array))
        elif isinstance(gradient, (float, numpy.generic)):
            gradient = numpy.asarray(gradient)
        if tuple(gradient.shape) != tuple(array.shape):
            raise UnexpectedResultError(
                f"backward of {self.name}() returned a gradient of shape {(*gradient.shape,)} for "
                f"an argument of shape {(*array.shape,)}; they have to be equal"
            )
        name = dtype_name(array.dtype)
        if dtype_name(gradient.dtype) != name:
            gradient = convert(gradient, _known(gradient)[0], dtype=name)
        return gradient

    def described(self, arrays: Sequence[Any]) -> tuple[list[Described], Any]:
        """Return the shapes and dtypes of the results without computing them, and their form."""
        result = None if self.by_hand is None else self.by_hand[2]
        if result is None and (found := self.by_rule([*map(Described.of, arrays)])) is not None:
            _, _, each, is_tuple = found
            results = [Described(shape or (), dtype) for dtype, shape in each]
            _, tree = self.caller.flatten(tuple(results) if is_tuple else results[0])
            return results, Form(self.caller, tree)
        if result is None and self.is_native:
            raise self.unknown(
                "and a number of a Rust function is a part of it; pass a number of Python"
                + ", such as a static argument of jax.jit" * (self.caller.name == "jax")
            )
        if self.by_hand is None:
            results, form = library(self.framework).described(self, arrays)
            return [*map(Described.of, results)], form
        if result is None:
            raise self.unknown("so the shape of the result has to be known; pass result= to defvjp")
        args, kwargs = self.arguments.filled([*map(Described.of, arrays)])
        leaves, tree = self.caller.flatten(completed(self.code, result, args, kwargs))
        return [*map(Described.of, leaves)], Form(self.caller, tree)


class _Derived(Function):
    """A derivative of a function, which has derivatives too."""

    numbered = "inner"

    def __init__(self, inner: Function, mask: Sequence[bool]) -> None:
        self.inner, self.mask = inner, tuple(mask)
        self.framework, self.name, self.caller = inner.framework, inner.name, inner.caller
        self.by_hand, self.conjugates, self.has_program = None, inner.conjugates, False
        self.is_native = False
        self.modes, self.cells = inner.modes, []

    @property
    def _key(self) -> tuple[Any, ...]:
        return ((self.inner, self.mask),)

    @property
    def is_by_hand(self) -> bool:
        inner = self.inner
        return inner.is_by_hand if isinstance(inner, _Derived) else inner.by_hand is not None


class Pullback(_Derived):
    """The function that pulls gradients back. It takes the arguments and those gradients.

    If it takes a state as well, its pass begins in that.
    """

    def __init__(
        self, inner: Function, of_results: Sequence[bool], state: Sequence[Any] = ()
    ) -> None:
        super().__init__(inner, (*inner.mask, *[True] * sum(of_results), *[False] * len(state)))
        self.has_state = bool(state)
        inner.expect_derivative()
        if inner.unrepeatable is not None:
            raise inner.refused(inner.unrepeatable)

    def run(self, arrays: Sequence[Any]) -> Results:
        inner, count = self.inner, len(self.inner.mask)
        arrays, state = (arrays[:-1], arrays[-1]) if self.has_state else (arrays, None)
        with inner.again(state) if self.has_state else _NOTHING:
            _, _, pull = inner.linearize(arrays[:count])
            return pull(arrays[count:]), list

    def linearize(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        if not self.is_by_hand:
            return super().linearize(arrays)

        def pull(gradients: Sequence[Any]) -> list[Any]:
            raise self.refused(
                "its derivative is given by hand (defvjp) and has no derivative itself; compute "
                f"it with functions of {self.caller.name}"
            )

        return *self.run(arrays), pull

    def described(self, arrays: Sequence[Any]) -> tuple[list[Described], Any]:
        own = chosen(arrays[: len(self.inner.mask)], self.inner.mask)
        return [*map(Described.of, own)], list


class Pulled(Pullback):
    """The function that pulls gradients back to a call that has been recorded."""

    def __init__(self, inner: Function, pull: Pull, arrays: Sequence[Any], count: int) -> None:
        super().__init__(inner, ())
        self.pull, self.mask = pull, (True,) * count
        self.promised = [*map(Described.of, chosen(arrays, inner.mask))]

    def apart(self) -> tuple[Any, tuple[Any, ...]]:
        return self, ()

    def bound(self, numbers: Sequence[Any]) -> Any:
        return self

    __eq__ = object.__eq__  # type: ignore[assignment]
    __hash__ = object.__hash__

    def run(self, arrays: Sequence[Any]) -> Results:
        return self.pull(arrays), list

    def described(self, arrays: Sequence[Any]) -> tuple[list[Described], Any]:
        return self.promised, list


class Pushforward(_Derived):
    """The function that pushes tangents forward. It takes the arguments and their tangents.

    It returns a tangent for each result of floats.
    """

    def __init__(self, inner: Function) -> None:
        super().__init__(inner, (*inner.mask, *[True] * sum(inner.mask)))

    def run(self, arrays: Sequence[Any]) -> Results:
        count = len(self.inner.mask)
        push = library(self.framework).push
        return push(self.inner, arrays[:count], arrays[count:]), list

    def described(self, arrays: Sequence[Any]) -> tuple[list[Described], Any]:
        found, _ = self.inner.described(arrays[: len(self.inner.mask)])
        return [each for each in found if is_inexact(each)], list


_NOTHING: contextlib.nullcontext[None] = contextlib.nullcontext()


class Form:
    """Gives results the form that the function returned."""

    def __init__(self, library: Any, tree: Any) -> None:
        self.library, self.tree = library, tree

    def __call__(self, leaves: Sequence[Any]) -> Any:
        return self.library.unflatten(leaves, self.tree)


def written(code: Any) -> list[str]:
    """Return the names of the arguments that a Rust function writes to, and that it gives back."""
    arrays, _, _, places, *_ = getattr(code, "_operator", tuple)() or [()] * 4
    return [arrays[at][0] for at in places]


def no_derivative(name: str, code: Any) -> str:
    if names := written(code):
        return f"it writes to {names[0]!r}; {RETURN}"
    return (
        f"Rust has no derivatives; give that of the function by hand, with {name}.defvjp(forward, "
        "backward), or declare it with stop_gradient"
    )


def lend(array: Any, framework: str, name: str) -> Any:
    """Return an array as one of the framework of a function with this name."""
    try:
        # A function that is declared writes to no argument.
        return convert(array, framework, copy=False)
    except CopyRequiredError:
        return convert(array, framework, copy=True)
    except UnsupportedDtypeError:
        if is_inexact(array):
            raise
        # Integers have no gradient, so that they may be narrowed as in any other call.
        return _narrow(array, framework, None, name, None)


def _conjugate(array: Any) -> Any:
    is_complex = dtype_name(array.dtype).startswith("complex")
    return numpy.conjugate(convert(array, "numpy")) if is_complex else array


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
