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
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from ._core import _known, _narrow, convert  # type: ignore[import-not-found]
from .exceptions import (
    CopyRequiredError,
    MemoryConversionError,
    NotDifferentiableError,
    UnexpectedResultError,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)

__all__: list[str] = []

_OWN = ("torch", "jax", "tensorflow")
"""The frameworks with gradients."""

_OPTIONS = (
    "arrays", "contract", "device", "gpu_id", "halo", "input_dtype", "input_type", "slice_by_slice",
    "tiles", "workers", "writable", "writes",
)  # fmt: skip
"""Options that do not go with a gradient of another framework."""


# Declarations


def check(framework: str, name: str, options: dict[str, Any]) -> None:
    """Check that a declaration goes with ``differentiable=True``."""
    if framework not in _OWN:
        raise ValueError(
            f"{name}() cannot be differentiable=True: {framework} has no gradients; give the "
            'derivative by hand, with output_type="input" and defvjp(forward, backward)'
        )
    # 0 is a device.
    wrong = [o for o in _OPTIONS if options.get(o) is not None and options[o] is not False]
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
    if framework in _OWN and inspect.isfunction(code):
        raise TypeError(
            f"{name}() is a function of {framework}, which has gradients of its own: declare it "
            "with differentiable=True"
        )
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
        args, kwargs = _as_positional(code, args, kwargs)
    given = (args, kwargs or {})
    callers = []
    for caller in _callers():
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
    ((caller, leaves, tree),) = callers
    for what, value in zip(("dtype_conversion", "slice_by_slice", "out"), added, strict=True):
        if value and getattr(value, "value", value) != "native":
            raise TypeError(f"{name}(): a call through which a gradient flows takes no {what}")
    is_array = [caller.is_array(leaf) for leaf in leaves]
    places = _Places(name, code, given, caller)
    rest = []
    for leaf, own in zip(leaves, is_array, strict=True):
        rest.append(_HERE if own else _constant(leaf, framework, places))
    own = [leaf for leaf, own in zip(leaves, is_array, strict=True) if own]
    # What carries no gradient is not differentiated.
    mask = tuple(caller.carries(leaf) and _is_inexact(leaf) for leaf in own)
    arrays = [caller.plain(leaf) for leaf in own]
    parts = (code, framework, name, by_hand, caller, tree, tuple(rest), mask)
    # Compiled programs are found again by their function.
    is_compiled = caller.name == "jax" or (framework == "jax" and _is_compiled(code))
    is_cached = is_compiled and _is_plain(rest)
    made = _cached(_Key(parts)) if is_cached else Function(parts)
    try:
        results, results_tree = caller.embed(made, arrays)
    except MemoryConversionError as error:
        places.name(error)
        raise
    return results_tree(results)


def _as_positional(code: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments by position, since ``backward`` gives one gradient for each parameter.

    Without a signature, they stay as given.
    """
    try:
        bound = inspect.signature(code).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    return bound.args, bound.kwargs


_HERE = object()
"""Takes the place of an array among the arguments."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _is_plain(rest: Sequence[Any]) -> bool:
    return all(leaf is _HERE or type(leaf) in _PLAIN for leaf in rest)


class _Key:
    """The parts of a function, by which its compiled programs are found again."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts
        code, framework, _, by_hand, caller, tree, rest, mask = parts
        # Numbers that are equal may differ: 0.0 and -0.0, 1 and True.
        texts = tuple(None if leaf is _HERE else (type(leaf), repr(leaf)) for leaf in rest)
        self.key = (id(code), framework, by_hand, caller.name, tree, texts, mask)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.key == other.key

    def __hash__(self) -> int:
        return hash((self.key[0], self.key[5], self.key[6]))


@functools.lru_cache(maxsize=256)
def _cached(key: _Key) -> Function:
    return Function(key.parts)


def _constant(leaf: Any, framework: str, places: _Places) -> Any:
    """Return an argument that is no array of the caller's framework."""
    known = _known(leaf)
    if known is None or known[1] is not None or known[0] == framework:
        return leaf
    try:
        return _lend_one(leaf, framework, places.function_name)
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


def _lend_one(array: Any, framework: str, name: str) -> Any:
    try:
        # A function that is declared writes to no argument.
        return convert(array, framework, copy=False)
    except CopyRequiredError:
        return convert(array, framework, copy=True)
    except UnsupportedDtypeError:
        if _is_inexact(array):
            raise
        # Integers have no gradient, so that they may be narrowed as in any other call.
        return _narrow(array, framework, None, name, None)


def _lend(arrays: Sequence[Any], framework: str, name: str) -> list[Any]:
    """Return arrays of the caller's framework as arrays of the function's, without copies."""
    lent = []
    for number, array in enumerate(arrays):
        try:
            lent.append(_lend_one(array, framework, name))
        except MemoryConversionError as error:
            error._argument = number  # type: ignore[attr-defined]
            raise
    return lent


# Functions and their derivatives


class Function:
    """A function of the arrays of one framework, in a list, that returns such a list.

    The first list has an array for each place of ``mask``, true where a gradient is wanted.
    """

    def __init__(self, parts: tuple[Any, ...]) -> None:
        (self.code, self.framework, self.name, self.by_hand, self.caller, self.tree, self.rest,
            self.mask) = parts  # fmt: skip
        # JAX's gradients of complex numbers are the conjugates of those of the others.
        self.conjugates = (self.caller.name == "jax") != (self.framework == "jax")
        self.is_compiled = self.framework == "jax" and _is_compiled(self.code)
        self.is_cached = _is_plain(self.rest)

    def lend(self, arrays: Sequence[Any]) -> list[Any]:
        return _lend(arrays, self.framework, self.name)

    def arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = iter(arrays)
        leaves = [next(found) if leaf is _HERE else leaf for leaf in self.rest]
        given: tuple[tuple[Any, ...], dict[str, Any]] = self.caller.unflatten(leaves, self.tree)
        return given

    def run(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return the results and the function that gives them their form."""
        # Inference tensors do not count their writes.
        watched = [a for a in arrays if self.framework == "torch" and not a.is_inference()]
        versions = [array._version for array in watched]
        args, kwargs = self.arguments(arrays)
        found = self.flat(self.code(*args, **kwargs))
        if versions != [array._version for array in watched]:
            raise NotDifferentiableError(
                self.caller.name, self.framework, "gradient",
                "it writes to an argument, whose memory is the caller's; let it write to a clone()",
                f"{self.name}()",
            )  # fmt: skip
        return found

    def flat(self, result: Any) -> tuple[list[Any], Any]:
        library = _LIBRARIES.get(self.framework, self.caller)
        leaves, tree = library.flatten(result)
        found = [self.as_array(leaf) for leaf in leaves]
        return found, _Form(library, tree)

    def as_array(self, leaf: Any) -> Any:
        if self.framework in _OWN:
            library = _LIBRARIES[self.framework]
            if library.is_array(leaf):
                return library.plain(leaf)
            if type(leaf) in (bool, int, float, complex) or isinstance(leaf, numpy.generic):
                return library.of_number(leaf)
        elif isinstance(leaf, (bool, int, float, complex, numpy.generic)):
            return numpy.asarray(leaf)
        elif (known := _known(leaf)) is not None and known[1] is None:
            return leaf
        raise UnexpectedResultError(
            f"{self.name}() returned {leaf!r}, but through a function with a gradient only arrays "
            "come back; return arrays, alone or in tuples, lists and dictionaries"
        )

    def linearize(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Callable[..., list[Any]]]:
        """Return the results, their form, and the function that pulls gradients back.

        That takes a gradient for each result of floats, and returns one for each such argument.
        """
        if self.by_hand is not None:
            return self.linearize_by_hand(arrays)
        if not any(self.mask):
            return *self.run(arrays), lambda gradients: []
        results, form, pull = _LIBRARIES[self.framework].linearize(self, arrays)
        return results, form, self.conjugated(pull)

    def conjugated(self, pull: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        if not self.conjugates:
            return pull
        conjugate = _conjugate if self.framework not in _OWN else None
        conjugate = conjugate or _LIBRARIES[self.framework].conjugate
        return lambda gradients: [*map(conjugate, pull([*map(conjugate, gradients)]))]

    def linearize_by_hand(
        self, arrays: Sequence[Any]
    ) -> tuple[list[Any], Any, Callable[..., list[Any]]]:
        forward, backward, _ = self.by_hand
        args, kwargs = self.arguments(arrays)
        made = forward(*args, **kwargs)
        if not (isinstance(made, tuple) and len(made) == 2):
            raise UnexpectedResultError(
                f"forward of {self.name}() has to return two values: the result of the function, "
                "and what backward needs"
            )
        result, needed = made
        results, form = self.flat(result)

        def pull(gradients: Sequence[Any]) -> list[Any]:
            found = iter(gradients)
            # Integers have no gradient.
            full = [next(found) if _is_inexact(each) else None for each in results]
            given = backward(needed, form(full))
            return self.by_array(given, args, kwargs, arrays)

        return results, form, self.conjugated(pull)

    def by_array(self, given: Any, args: Any, kwargs: Any, arrays: Sequence[Any]) -> list[Any]:
        """Return the gradients of the arguments of floats, from the result of ``backward``."""
        given = given if isinstance(given, tuple) else (given, *[None] * (len(args) - 1))
        if len(given) != len(args):
            raise UnexpectedResultError(
                f"backward of {self.name}() returned {len(given)} gradients for {len(args)} "
                "arguments; return one for each, or None"
            )
        flatten = self.caller.flatten
        leaves: list[Any] = []
        for argument, each in zip(args, given, strict=True):
            count = len(flatten(argument)[0])
            parts = [None] * count if each is None else flatten(each)[0]
            if len(parts) != count:
                raise UnexpectedResultError(
                    f"backward of {self.name}() returned {len(parts)} gradients for an argument "
                    f"with {count} arrays; return one for each"
                )
            leaves += parts
        leaves += [None] * len(flatten(kwargs)[0])
        own = [each for each, place in zip(leaves, self.rest, strict=True) if place is _HERE]
        found = []
        for each, array, floats in zip(own, arrays, self.mask, strict=True):
            if not floats:
                continue
            # NumPy's are also those of a framework without numbers of its own.
            zero = each is None
            each = numpy.zeros(tuple(array.shape), _numpy_dtype(array)) if zero else each
            each = numpy.asarray(each) if isinstance(each, (float, numpy.generic)) else each
            if tuple(each.shape) != tuple(array.shape):
                raise UnexpectedResultError(
                    f"backward of {self.name}() returned a gradient of shape {(*each.shape,)} for "
                    f"an argument of shape {(*array.shape,)}; they have to be equal"
                )
            if _name(each.dtype) != _name(array.dtype):
                each = convert(each, _known(each)[0], dtype=_name(array.dtype))
            found.append(each)
        return found

    def described(self, arrays: Sequence[Any]) -> tuple[list[tuple[tuple[int, ...], str]], Any]:
        """Return the shapes and dtypes of the results without computing them, and their form."""
        if self.by_hand is None:
            return _LIBRARIES[self.framework].described(self, arrays)
        result = self.by_hand[2]
        if result is None:
            raise UnsupportedArrayError(
                self.caller.name, self.framework, "gradient",
                "the caller compiles its program before there are values, so the shape of the "
                "result has to be known; pass result= to defvjp",
                f"{self.name}()",
            )  # fmt: skip
        args, kwargs = self.arguments([_Described(array) for array in arrays])
        leaves, tree = self.caller.flatten(result(*args, **kwargs))
        found = [((*each.shape,), _name(each.dtype)) for each in leaves]
        return found, _Form(self.caller, tree)


class _Derived(Function):
    """A derivative of a function, which has derivatives too."""

    def __init__(self, inner: Function, mask: Sequence[bool]) -> None:
        self.inner, self.mask = inner, tuple(mask)
        self.framework, self.name, self.caller = inner.framework, inner.name, inner.caller
        self.code, self.by_hand, self.rest = None, None, ()
        self.conjugates = inner.conjugates
        self.is_compiled, self.is_cached = inner.is_compiled, False

    @property
    def is_by_hand(self) -> bool:
        inner = self.inner
        return inner.is_by_hand if isinstance(inner, _Derived) else inner.by_hand is not None


class Pullback(_Derived):
    """The function that pulls gradients back. It takes the arguments and those gradients."""

    def __init__(self, inner: Function, of_results: Sequence[bool]) -> None:
        self.of_results = tuple(of_results)
        super().__init__(inner, (*inner.mask, *[True] * sum(self.of_results)))

    def run(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        count = len(self.inner.mask)
        _, _, pull = self.inner.linearize(arrays[:count])
        return pull(arrays[count:]), list

    def linearize(self, arrays: Sequence[Any]) -> tuple[list[Any], Any, Callable[..., list[Any]]]:
        if not self.is_by_hand:
            return super().linearize(arrays)

        def pull(gradients: Sequence[Any]) -> list[Any]:
            raise NotDifferentiableError(
                self.caller.name, self.framework, "gradient",
                "its derivative is given by hand (defvjp) and has no derivative itself; compute "
                f"it with functions of {self.caller.name}",
                f"{self.name}()",
            )  # fmt: skip

        return *self.run(arrays), pull

    def described(self, arrays: Sequence[Any]) -> tuple[list[tuple[tuple[int, ...], str]], Any]:
        pairs = zip(arrays, self.inner.mask, strict=False)
        own = [array for array, floats in pairs if floats]
        return [((*array.shape,), _name(array.dtype)) for array in own], list


class Pushforward(_Derived):
    """The function that pushes tangents forward. It takes the arguments and their tangents.

    It returns a tangent for each result of floats.
    """

    def __init__(self, inner: Function) -> None:
        super().__init__(inner, (*inner.mask, *[True] * sum(inner.mask)))

    def run(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        count = len(self.inner.mask)
        push = _LIBRARIES[self.framework].push
        return push(self.inner, arrays[:count], arrays[count:]), list

    def described(self, arrays: Sequence[Any]) -> tuple[list[tuple[tuple[int, ...], str]], Any]:
        found, _ = self.inner.described(arrays[: len(self.inner.mask)])
        return [(shape, name) for shape, name in found if name.startswith(_INEXACT)], list


class _Form:
    """Gives results the form that the function returned."""

    def __init__(self, library: Any, tree: Any) -> None:
        self.library, self.tree = library, tree

    def __call__(self, leaves: Sequence[Any]) -> Any:
        return self.library.unflatten(leaves, self.tree)


class _Described:
    """The shape and the dtype of an array."""

    def __init__(self, array: Any) -> None:
        self.shape = tuple(1 if size is None else int(size) for size in array.shape)
        self.dtype = array.dtype


def _name(dtype: Any) -> str:
    """Return the name of a dtype, which all frameworks share with NumPy."""
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(text).rpartition(".")[2]


def _numpy_dtype(array: Any) -> Any:
    name = _name(array.dtype)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


_INEXACT = ("float", "bfloat", "complex")


def _is_inexact(array: Any) -> bool:
    return _name(array.dtype).startswith(_INEXACT)


def _conjugate(array: Any) -> Any:
    is_complex = _name(array.dtype).startswith("complex")
    return numpy.conjugate(convert(array, "numpy")) if is_complex else array


# Frameworks


class _Torch:
    name = "torch"

    @staticmethod
    def flatten(value: Any) -> tuple[list[Any], Any]:
        from torch.utils import _pytree

        return _pytree.tree_flatten(value)

    @staticmethod
    def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
        from torch.utils import _pytree

        return _pytree.tree_unflatten([*leaves], tree)

    @staticmethod
    def is_array(leaf: Any) -> bool:
        import torch

        return isinstance(leaf, torch.Tensor)

    @staticmethod
    def carries(leaf: Any) -> bool:
        import torch

        if not isinstance(leaf, torch.Tensor):
            return False
        if leaf.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(leaf):
            return True
        forward = torch.autograd.forward_ad
        return forward._current_level >= 0 and forward.unpack_dual(leaf).tangent is not None

    @staticmethod
    def plain(leaf: Any) -> Any:
        return leaf

    @staticmethod
    def of_number(leaf: Any) -> Any:
        import torch

        return torch.as_tensor(leaf)

    @staticmethod
    def conjugate(array: Any) -> Any:
        return array.conj().resolve_conj() if array.is_complex() else array

    @staticmethod
    def linearize(function: Function, arrays: Sequence[Any]) -> Any:
        import torch

        pairs = [*zip(arrays, function.mask, strict=True)]
        # Inside another derivative, operations on these arrays are recorded already.
        again = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
        if not again:
            pairs = [(array.detach().requires_grad_(floats), floats) for array, floats in pairs]
        given = [array for array, floats in pairs if floats]
        with torch.inference_mode(False), torch.enable_grad():
            results, form = function.run([array for array, _ in pairs])

        def pull(gradients: Sequence[Any]) -> list[Any]:
            inexact = [each for each in results if _is_inexact(each)]
            pairs = zip(inexact, gradients, strict=True)
            recorded = [(each, by) for each, by in pairs if each.requires_grad]
            if not (recorded and given):
                return [torch.zeros_like(each) for each in given]
            outputs, seeds = zip(*recorded, strict=True)
            return [
                *torch.autograd.grad(
                    outputs, given, seeds, retain_graph=True, create_graph=again,
                    materialize_grads=True, allow_unused=True,
                )
            ]  # fmt: skip

        return (results if again else [each.detach() for each in results]), form, pull

    @staticmethod
    def described(function: Function, arrays: Sequence[Any]) -> Any:
        import torch
        from torch._subclasses import FakeTensorMode
        from torch._subclasses.fake_tensor import (
            DataDependentOutputException,
            DynamicOutputShapeException,
        )

        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            fakes = [
                torch.empty(tuple(array.shape), dtype=getattr(torch, _name(array.dtype)))
                for array in arrays
            ]
            try:
                results, form = function.run(fakes)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                raise _unknown_shape(function, error) from error
            except Exception as error:
                error.add_note(
                    f"{function.name}() was called with tensors without values, to find out the "
                    "shapes of its results"
                )
                raise
        return [((*each.shape,), _name(each.dtype)) for each in results], form

    @classmethod
    def embed(cls, function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        import torch

        *results, made = _torch_operation().apply(function, torch.is_grad_enabled(), *arrays)
        return results, made.form


class _Made:
    """The values that a recorded call leaves for its derivative."""

    def __init__(self, form: Any, of_results: Sequence[bool], pull: Any) -> None:
        self.form, self.of_results, self.pull = form, tuple(of_results), pull


@functools.cache
def _torch_operation() -> Any:
    import torch

    def taken(function: Function, arrays: Sequence[Any], like: Sequence[Any]) -> list[Any]:
        home = next((array.device for array in like if _is_inexact(array)), None)
        own = function.framework == "torch"
        return [
            each.detach().clone() if own else convert(each, "torch", copy=True, device=home)
            for each in arrays
        ]

    def lent(function: Function, arrays: Sequence[Any]) -> list[Any]:
        arrays = [array.detach() for array in arrays]
        return arrays if function.framework == "torch" else function.lend(arrays)

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(function: Function, records: bool, *arrays: Any) -> Any:
            given = lent(function, arrays)
            pull = None
            if records:
                results, form, pull = function.linearize(given)
            else:
                results, form = function.run(given)
            floats = [*map(_is_inexact, results)]
            return *taken(function, results, arrays), _Made(form, floats, pull)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            function, _, *arrays = inputs
            *results, made = output
            ctx.function, ctx.made = function, made
            ctx.save_for_backward(*arrays)
            ctx.save_for_forward(*arrays)
            pairs = zip(results, made.of_results, strict=True)
            ctx.mark_non_differentiable(*[each for each, floats in pairs if not floats])

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            function, made = ctx.function, ctx.made
            pairs = zip(gradients[:-1], made.of_results, strict=True)
            gradients = tuple(each for each, floats in pairs if floats)
            arrays = ctx.saved_tensors
            if made.pull is None or torch.is_grad_enabled():
                pullback = Pullback(function, made.of_results)
                found, _ = _Torch.embed(pullback, [*arrays, *gradients])
            else:
                found = taken(function, made.pull(lent(function, gradients)), arrays)
            each = iter(found)
            return None, None, *[next(each) if floats else None for floats in function.mask]

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            function, arrays = ctx.function, ctx.saved_tensors
            pushforward = Pushforward(function)
            if pushforward.is_by_hand:
                raise NotDifferentiableError(
                    "torch", function.framework, "gradient",
                    "its derivative is given by hand (defvjp) and has no forward mode; use "
                    "backward(), torch.func.grad, vjp or jacrev",
                    f"{function.name}()",
                )  # fmt: skip
            triples = zip(arrays, tangents[2:], function.mask, strict=True)
            given = [
                torch.zeros_like(array) if tangent is None else tangent
                for array, tangent, floats in triples
                if floats
            ]
            found, _ = _Torch.embed(pushforward, [*arrays, *given])
            each = iter(found)
            return *[next(each) if floats else None for floats in ctx.made.of_results], None

        @staticmethod
        def vmap(info: Any, in_dims: Any, function: Function, records: Any, *arrays: Any) -> Any:
            if not info.batch_size:
                raise NotDifferentiableError(
                    "torch", function.framework, "vmap", "the batch of torch.vmap is empty",
                    f"{function.name}()",
                )  # fmt: skip
            rows = []
            for at in range(info.batch_size):
                pairs = zip(arrays, in_dims[2:], strict=True)
                part = [array if d is None else array.select(d, at) for array, d in pairs]
                *results, made = Operation.apply(function, records, *part)
                rows.append(results)
            stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
            made = _Made(made.form, made.of_results, None)
            return (*stacked, made), (*[0] * len(stacked), None)

    return Operation


class _Jax:
    name = "jax"

    @staticmethod
    def flatten(value: Any) -> tuple[list[Any], Any]:
        import jax

        return jax.tree_util.tree_flatten(value)

    @staticmethod
    def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
        import jax

        return jax.tree_util.tree_unflatten(tree, leaves)

    @staticmethod
    def is_array(leaf: Any) -> bool:
        import jax

        return isinstance(leaf, jax.Array)

    @staticmethod
    def carries(leaf: Any) -> bool:
        import jax

        return isinstance(leaf, jax.core.Tracer)

    @staticmethod
    def plain(leaf: Any) -> Any:
        return leaf

    @staticmethod
    def of_number(leaf: Any) -> Any:
        import jax

        return jax.numpy.asarray(leaf)

    @staticmethod
    def conjugate(array: Any) -> Any:
        return array.conj() if _name(array.dtype).startswith("complex") else array

    @staticmethod
    def linearize(function: Function, arrays: Sequence[Any]) -> Any:
        import jax

        if function.is_compiled and function.is_cached:
            results, form, pull = _jax_linearized()(function, *arrays)
            apply = _jax_pulled()
        else:
            results, form, pull = _jax_linearize(function, arrays)
            apply = _apply
        if not any(isinstance(array, jax.core.Tracer) for array in arrays):
            # The memory of the arguments is the caller's, who may write to it now.
            jax.block_until_ready((results, pull))
        return results, form.value, lambda gradients: _ready(apply(pull, tuple(gradients)))

    @staticmethod
    def push(function: Function, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        import jax

        of_floats, given = _jax_of_floats(function, arrays)
        _, found, _ = jax.jvp(of_floats, given, [*tangents], has_aux=True)
        return _ready(found)

    @staticmethod
    def described(function: Function, arrays: Sequence[Any]) -> Any:
        import jax

        shaped = [jax.ShapeDtypeStruct(tuple(a.shape), _numpy_dtype(a)) for a in arrays]
        forms = []

        def run(*given: Any) -> list[Any]:
            results, form = function.run(given)
            forms.append(form)
            return results

        try:
            results = jax.eval_shape(run, *shaped)
        except jax.errors.ConcretizationTypeError as error:
            raise _unknown_shape(function, error) from error
        return [((*each.shape,), _name(each.dtype)) for each in results], forms[0]

    @classmethod
    def embed(cls, function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        import jax

        static = _jax_static()
        # No result of the operation, since JAX may trace that twice and compares the two.
        forms: list[Any] = []

        def taken(results: Sequence[Any], like: Sequence[Any]) -> list[Any]:
            pairs = zip(results, like, strict=True)
            return [
                convert(each, "jax", copy=True, device=_jax_home(other)) for each, other in pairs
            ]

        def at_home(results: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
            bound = (array for array in arrays if _jax_home(array) and _is_inexact(array))
            return taken(results, [next(bound, None)] * len(results))

        @jax.custom_vjp
        def primal(*arrays: Any) -> Any:
            if not any(map(cls.carries, arrays)):
                results, form = function.run(function.lend(arrays))
                forms.append(form)
                return at_home(results, arrays)
            shapes, form = function.described(arrays)
            forms.append(form)
            promised = [jax.ShapeDtypeStruct(shape, _dtype_named(name)) for shape, name in shapes]
            call = _Call(function, tuple(shapes))
            return jax.pure_callback(call, promised, *arrays, vmap_method="sequential")

        def forward(*arrays: Any) -> Any:
            if any(map(cls.carries, arrays)):
                results, pull = primal(*arrays), None
            else:
                found, form, pull = function.linearize(function.lend(arrays))
                forms.append(form)
                results = at_home(found, arrays)
            floats = tuple(map(_is_inexact, results))
            return results, (arrays, static((pull, floats)))

        def backward(kept: Any, gradient: Any) -> Any:
            arrays, made = kept
            pull, floats = made.value
            pairs = zip(gradient, floats, strict=True)
            gradients = [each for each, own in pairs if own]
            if pull is None or any(map(cls.carries, (*arrays, *gradients))):
                found, _ = cls.embed(Pullback(function, floats), [*arrays, *gradients])
            else:
                own = [array for array, own in zip(arrays, function.mask, strict=True) if own]
                found = taken(pull(function.lend(gradients)), own)
            each = iter(found)
            return tuple(next(each) if own else None for own in function.mask)

        primal.defvjp(forward, backward)
        return primal(*arrays), forms[-1]


def _jax_home(array: Any) -> Any:
    """Return the device that an array is bound to; None if it meets arrays of any device."""
    import jax

    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return None
    devices = array.devices()
    return next(iter(devices)) if array._committed and len(devices) == 1 else None


class _Call:
    """A call that a compiled program of JAX makes."""

    def __init__(self, function: Function, shapes: tuple[Any, ...]) -> None:
        self.function, self.shapes = function, shapes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Call):
            return False
        return (self.function, self.shapes) == (other.function, other.shapes)

    def __hash__(self) -> int:
        return hash(id(self.function))

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        results, _ = self.function.run(self.function.lend(arrays))
        found = tuple(convert(each, "numpy") for each in results)
        made = tuple(((*each.shape,), _name(each.dtype)) for each in found)
        if made != self.shapes:
            raise UnexpectedResultError(
                f"{self.function.name}() returned {_list(made)}, but it was to return "
                f"{_list(self.shapes)}; the shapes of its results may depend on shapes only"
            )
        return found


def _list(shapes: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}{[*shape]}" for shape, dtype in shapes)


def _dtype_named(name: str) -> Any:
    import jax

    return jax.numpy.dtype(name)


def _is_compiled(code: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(code, jax.stages.Wrapped)


def _ready(arrays: Any) -> list[Any]:
    import jax

    is_traced = any(isinstance(array, jax.core.Tracer) for array in arrays)
    return [*(arrays if is_traced else jax.block_until_ready(arrays))]


@functools.cache
def _jax_static() -> Any:
    import jax

    @jax.tree_util.register_static
    class Static:
        """An object without arrays among arrays."""

        def __init__(self, value: Any) -> None:
            self.value = value

    return Static


def _jax_of_floats(function: Function, arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return a function of the arrays of floats, for JAX to differentiate, and these arrays."""

    def of_floats(*given: Any) -> Any:
        found = iter(given)
        pairs = zip(arrays, function.mask, strict=True)
        results, form = function.run([next(found) if floats else array for array, floats in pairs])
        found_floats = [(each, _is_inexact(each)) for each in results]
        rest = [None if floats else each for each, floats in found_floats]
        return [each for each, floats in found_floats if floats], (rest, _jax_static()(form))

    return of_floats, [array for array, own in zip(arrays, function.mask, strict=True) if own]


def _jax_linearize(function: Function, arrays: Sequence[Any]) -> tuple[Any, Any, Any]:
    import jax

    of_floats, given = _jax_of_floats(function, arrays)
    inexact, pull, (rest, form) = jax.vjp(of_floats, *given, has_aux=True)
    found = iter(inexact)
    return [next(found) if each is None else each for each in rest], form, pull


def _apply(pull: Any, gradients: tuple[Any, ...]) -> Any:
    return pull([*gradients])


@functools.cache
def _jax_linearized() -> Any:
    import jax

    def linearized(function: Function, *arrays: Any) -> tuple[Any, Any, Any]:
        return _jax_linearize(function, arrays)

    return jax.jit(linearized, static_argnums=0)


@functools.cache
def _jax_pulled() -> Any:
    import jax

    return jax.jit(_apply)


class _TensorFlow:
    name = "tensorflow"

    @staticmethod
    def flatten(value: Any) -> tuple[list[Any], Any]:
        import tensorflow

        shape = tensorflow.nest.map_structure(lambda leaf: None, value)
        return tensorflow.nest.flatten(value), shape

    @staticmethod
    def unflatten(leaves: Sequence[Any], tree: Any) -> Any:
        import tensorflow

        return tensorflow.nest.pack_sequence_as(tree, leaves)

    @staticmethod
    def is_array(leaf: Any) -> bool:
        import tensorflow

        return isinstance(leaf, (tensorflow.Tensor, tensorflow.Variable))

    @classmethod
    def carries(cls, leaf: Any) -> bool:
        return cls.is_array(leaf) and (leaf.dtype.is_floating or leaf.dtype.is_complex)

    @staticmethod
    def plain(leaf: Any) -> Any:
        import tensorflow

        return tensorflow.convert_to_tensor(leaf)

    @staticmethod
    def of_number(leaf: Any) -> Any:
        import tensorflow

        return tensorflow.convert_to_tensor(leaf)

    @staticmethod
    def conjugate(array: Any) -> Any:
        import tensorflow

        return tensorflow.math.conj(array) if array.dtype.is_complex else array

    @staticmethod
    def linearize(function: Function, arrays: Sequence[Any]) -> Any:
        import tensorflow

        pairs = zip(arrays, function.mask, strict=True)
        given = [array for array, floats in pairs if floats]
        with tensorflow.GradientTape(persistent=True) as tape:
            tape.watch(given)
            results, form = function.run(arrays)

        def pull(gradients: Sequence[Any]) -> list[Any]:
            inexact = [each for each in results if _is_inexact(each)]
            found = tape.gradient(inexact, given, [*gradients], "zero")
            return [*map(tensorflow.convert_to_tensor, found)]

        return results, form, pull

    @staticmethod
    def push(function: Function, arrays: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        import tensorflow

        # A `ForwardAccumulator` is wrong below another one. Pulling back is linear in the
        # gradients, and the derivative of that pushes forward.
        pairs = zip(arrays, function.mask, strict=True)
        given = [array for array, floats in pairs if floats]
        with tensorflow.GradientTape() as outer:
            with tensorflow.GradientTape() as inner:
                inner.watch(given)
                results, _ = function.run(arrays)
                inexact = [each for each in results if _is_inexact(each)]
            zeros = [*map(tensorflow.zeros_like, inexact)]
            outer.watch(zeros)
            pulled = inner.gradient(inexact, given, zeros, "zero")
        found = outer.gradient(pulled, zeros, [*tangents], "zero")
        return [*map(tensorflow.convert_to_tensor, found)]

    @staticmethod
    def described(function: Function, arrays: Sequence[Any]) -> Any:
        import tensorflow

        forms = []

        def run(*given: Any) -> list[Any]:
            results, form = function.run(given)
            forms.append(form)
            return results

        specs = [tensorflow.TensorSpec(tuple(a.shape), _name(a.dtype)) for a in arrays]
        traced = tensorflow.function(run, autograph=False).get_concrete_function(*specs)
        results = traced.structured_outputs
        if any(each.shape.rank is None or None in each.shape for each in results):
            raise _unknown_shape(function, None)
        return [((*each.shape,), _name(each.dtype)) for each in results], forms[0]

    @classmethod
    def embed(cls, function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        import tensorflow

        if not all(hasattr(array, "numpy") for array in arrays):
            return cls.embed_in_graph(function, arrays)
        forms: list[Any] = []

        def taken(results: Sequence[Any], like: Sequence[Any]) -> list[Any]:
            pairs = zip(results, like, strict=True)
            return [
                convert(each, "tensorflow", copy=True, device=_tf_home(other))
                for each, other in pairs
            ]

        @tensorflow.custom_gradient
        def operation(*arrays: Any) -> Any:
            results, form, pull = function.linearize(function.lend(arrays))
            forms.append(form)
            floats = [*map(_is_inexact, results)]

            def gradient(*gradients: Any) -> Any:
                pairs = zip(gradients, floats, strict=True)
                gradients = tuple(each for each, own in pairs if own)
                if all(hasattr(each, "numpy") for each in gradients) and not _tf_records():
                    own = [array for array, own in zip(arrays, function.mask, strict=True) if own]
                    found = taken(pull(function.lend(gradients)), own)
                else:
                    found, _ = cls.embed(Pullback(function, floats), [*arrays, *gradients])
                each = iter(found)
                return [next(each) if own else None for own in function.mask]

            return taken(results, [lead] * len(results)), gradient

        lead = next(filter(_is_inexact, arrays))
        # TensorFlow passes the results on by an operation.
        with tensorflow.device(_tf_home(lead)):
            results = operation(*arrays)
        return _listed(results), forms[0]

    @classmethod
    def embed_in_graph(cls, function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        import tensorflow

        # A dimension may be unknown, as that of a batch. Dtypes and the form do not depend on it.
        is_known = all(array.shape.is_fully_defined() for array in arrays)
        shapes, form = function.described([_Described(array) for array in arrays])
        floats = [name.startswith(_INEXACT) for _, name in shapes]

        def compute(*arrays: Any) -> list[Any]:
            results, _ = function.run(function.lend(arrays))
            return [convert(each, "tensorflow", copy=True) for each in results]

        @tensorflow.custom_gradient
        def operation(*arrays: Any) -> Any:
            results = tensorflow.py_function(compute, arrays, [name for _, name in shapes])
            for each, (shape, _) in zip(results, shapes, strict=True):
                each.set_shape(shape if is_known else [None] * len(shape))

            def gradient(*gradients: Any) -> Any:
                pairs = zip(gradients, floats, strict=True)
                own = [each for each, floats in pairs if floats]
                found, _ = cls.embed(Pullback(function, floats), [*arrays, *own])
                each = iter(found)
                return [next(each) if own else None for own in function.mask]

            return results, gradient

        return _listed(operation(*arrays)), form


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def _tf_home(array: Any) -> str:
    """Return the device of a tensor, as conversions name it."""
    return str(array.backing_device.rpartition("device:")[2].lower())


def _tf_records() -> bool:
    from tensorflow.python.eager import record

    return bool(record.could_possibly_record())


def _unknown_shape(function: Function, error: BaseException | None) -> UnsupportedArrayError:
    caller, framework = function.caller.name, function.framework
    told = f" ({str(error).strip().splitlines()[0]})" if error is not None and str(error) else ""
    way = f"; describe it: arraybridge.jax_callback({function.name}, result=..)"
    return UnsupportedArrayError(
        caller, framework, "gradient",
        "the caller compiles its program before there are values, and the shape of the result "
        f"depends on them{told}" + way * (caller == "jax"),
        f"{function.name}()",
    )  # fmt: skip


_LIBRARIES: dict[str, Any] = {"torch": _Torch, "jax": _Jax, "tensorflow": _TensorFlow}

# A module that is being imported, or that another one has left there, lacks this.
_READY = {"torch": "autograd", "jax": "vjp", "tensorflow": "GradientTape"}


def _callers() -> Iterator[Any]:
    """Return the imported frameworks with gradients."""
    for name, library in _LIBRARIES.items():
        if hasattr(sys.modules.get(name), _READY[name]):
            yield library
