"""Call functions inside programs that JAX and PyTorch compile.

A compiler has no values to call a function with. It needs the shape and the dtype of a result,
writes a call into its program, and makes the call when the program runs. ``result`` therefore
describes the result in advance. The function runs outside the program, on the host or on the device
of its declaration.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy

from ._core import _is_declared, _known, convert, explain  # type: ignore[import-not-found]
from ._graphs.described import (
    HERE,
    Arguments,
    Call,
    Described,
    by_argument,
    completed,
    listed,
    remembered,
)
from ._graphs.function import OWN, library
from ._graphs.modes import Modes
from .exceptions import UnexpectedResultError, UnsupportedArrayError

__all__ = ["ProgramPlan", "explain_program", "jax_callback", "torch_op"]


def jax_callback(
    function: Callable[..., Any],
    *,
    result: Callable[..., Any] | tuple[Callable[..., Any], ...],
    backward: Callable[..., Any] | None = None,
    vmap_method: str | None = "sequential",
) -> Callable[..., Any]:
    """Make a function callable inside ``jax.jit``, ``jax.vmap`` and other transformations.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and must not write to them: JAX calls it once, several times or not at all.
    result : callable or tuple of callables
        Called with the arguments, with a ``jax.ShapeDtypeStruct`` in place of each JAX array.
        Returns an object with the shape and the dtype of the result, which depend on these
        arguments only. For several results, a tuple has one callable for each of them.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or only the gradient of the first argument. JAX compiles it. If there
        are several results, ``gradient`` is a tuple.
    vmap_method : str, optional
        As in ``jax.pure_callback``. "sequential" calls the function for each element of the batch.

    Returns
    -------
    callable
        A function of the same arguments that returns JAX arrays. Arguments that are not JAX arrays
        are passed to the function unchanged.

    Raises
    ------
    UnexpectedResultError
        If the result of the function does not match ``result``. In a compiled program, JAX raises
        its ``JaxRuntimeError`` with the text of any exception.

    Notes
    -----
    In a compiled program, JAX chooses the thread of the call. The function finds the modes there
    that its call was traced in, such as ``torch.autocast`` and x64. The caller's ``dtype_policy``,
    ``no_copy`` and ``trace`` apply only in the caller's thread; ``trace(everywhere=True)`` and the
    policy of the declaration always apply. The function gets arrays on the host. When it returns,
    their memory belongs to JAX again.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> @arraybridge.numpy
    ... def ordered(x):
    ...     return numpy.sort(x)
    >>> import jax
    >>> inside = arraybridge.jax_callback(ordered, result=lambda x: x)
    >>> jax.jit(lambda x: inside(x) + 1)(jax.numpy.array([3, 1, 2])).tolist()
    [2, 3, 4]
    """
    import jax

    promise, own = Promise(function, result), library("jax")

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        arrays, arguments = Arguments.of(own, (args, kwargs))
        prepared = _JaxCall(promise, arguments)
        if not any(map(own.carries, arrays)):
            return promise.alone(prepared.compute(arrays, "jax"))

        def primal(*arrays: Any) -> Any:
            promised = prepared.promised(arrays)
            return promise.alone(own.callback(prepared, promised, arrays, vmap_method))

        def gradients(arrays: Sequence[Any], gradient: Any) -> tuple[Any, ...]:
            if backward is None:
                raise NotImplementedError(
                    f"{promise.name}() has no gradient; name the function that computes it: "
                    "arraybridge.jax_callback(.., backward=..)"
                )
            return prepared.gradients(backward, gradient, arrays)

        differentiable = jax.custom_vjp(primal)
        # As the function itself, so that a gradient has a gradient.
        differentiable.defvjp(lambda *arrays: (differentiable(*arrays), arrays), gradients)
        return differentiable(*own.alike(arrays))

    return call


def torch_op(
    function: Callable[..., Any],
    name: str,
    *,
    result: Callable[..., Any] | tuple[Callable[..., Any], ...],
    backward: Callable[..., Any] | None = None,
    schema: str | None = None,
) -> Any:
    """Register a function as an operator of PyTorch, which ``torch.compile`` keeps in its graph.

    Parameters
    ----------
    function : callable
        A declared function of any framework, in Python or Rust. It must depend on its arguments
        only, and must not write to them.
    name : str
        The operator's name with its namespace, such as "mylib::blur".
    result : callable or tuple of callables
        Called with the arguments, with tensors that have no values. Returns a tensor with the
        shape, the dtype and the device of the result, which depend on these arguments only. For
        several results, a tuple has one callable for each of them. Results are contiguous.
    backward : callable, optional
        ``backward(gradient, *arguments)`` returns a tuple with the gradient of each argument, or
        None for one without, or only the gradient of the first argument. PyTorch compiles it. If
        there are several results, ``gradient`` is a tuple.
    schema : str, optional
        The operator's schema, such as "(Tensor image, float sigma) -> Tensor". By default it
        follows the function's signature: parameters are tensors unless their annotations or
        defaults are numbers, bools or strings.

    Returns
    -------
    torch.library.CustomOpDef
        The operator, which is called like the function. It takes and returns tensors. Under
        ``torch.vmap`` the function is called for each element of the batch. ``torch.func.grad``
        does not support such operators.

    Raises
    ------
    ValueError
        If the name has no namespace.
    UnexpectedResultError
        When the operator is called, if the result of the function does not match ``result``.

    Examples
    --------
    >>> import numpy, torch, arraybridge
    >>> @arraybridge.numpy
    ... def ordered(x):
    ...     return numpy.sort(x)
    >>> inside = arraybridge.torch_op(ordered, "docs::ordered", result=lambda x: x)
    >>> inside(torch.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    import torch

    from ._graphs.schema import schema_of

    if not all(name.partition("::")):
        raise ValueError(f'the name of an operator has a namespace, as in "mylib::blur": {name!r}')
    promise = Promise(function, result)
    call = _TorchCall(promise, backward)
    schema = schema or schema_of(function, promise.name, result)
    op = torch.library.custom_op(name, call.compute, mutates_args=(), schema=schema)
    op.register_fake(call.fake)
    op.register_vmap(functools.partial(call.mapped, op))
    if backward is not None:
        op.register_autograd(call.gradients, setup_context=call.save)
    return op


class Promise:
    """A function, or the name of one, and the description of its results."""

    def __init__(self, function: Callable[..., Any] | str, result: Any) -> None:
        self.function: Any = function
        name = getattr(function, "__name__", type(function).__name__)
        self.name: str = function if isinstance(function, str) else name
        writes = getattr(function, "_writes", None)
        if writes is not None:
            names = [writes] if isinstance(writes, str) else writes
            raise TypeError(
                f"{self.name}() writes to {', '.join(names)}, and a compiler takes calls for "
                "free of writes: it may leave them out, repeat or reorder them; declare a function "
                "that returns the array"
            )
        self.is_tuple = isinstance(result, tuple)
        self.results = result if self.is_tuple else (result,)
        if not all(map(callable, self.results)) or len(self.results) < 1 + self.is_tuple:
            raise TypeError(
                f"result= of {self.name}() has to be a function of its arguments, or a tuple "
                "with a function for each of two or more results"
            )

    def of(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the results of ``result`` for these arguments."""
        found = [completed(self.function, result, args, kwargs) for result in self.results]
        for each in found:
            if not (hasattr(each, "shape") and hasattr(each, "dtype")):
                raise TypeError(
                    f"result= of {self.name}() returned {_text(each)}; return an object with "
                    "the shape and the dtype of the result"
                )
        return found

    def alone(self, results: Sequence[Any]) -> Any:
        """Return the results in the form for the caller."""
        return tuple(results) if self.is_tuple else results[0]

    def listed(self, result: Any) -> list[Any]:
        """Return what has that form as a list."""
        return [*result] if self.is_tuple else [result]

    def kept(self, value: Any, wanted: Sequence[Described], target: Any, devices: Any) -> list[Any]:
        """Return the results of the function as arrays of a framework.

        Raises ``UnexpectedResultError`` if they do not match the promise.
        """
        is_right = isinstance(value, (tuple, list)) and len(value) == len(wanted)
        if self.is_tuple and not is_right:
            raise self.unexpected(value, wanted)
        arrays = [*map(_array, self.listed(value), wanted)]
        if not all(map(_matches, arrays, wanted)):
            raise self.unexpected(value, wanted)
        pairs = zip(arrays, devices, strict=True)
        return [convert(array, target, device=device) for array, device in pairs]

    def unexpected(self, value: Any, promised: Sequence[Described]) -> UnexpectedResultError:
        said = f"({listed(promised)})" if self.is_tuple else listed(promised)
        return UnexpectedResultError(
            f"{self.name}() returned {_text(value)}, but result= describes {said}; make them agree"
        )

    def by_argument(self, gradients: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return a gradient for each argument, from the result of ``backward``."""
        return by_argument(gradients, args, f"backward= of {self.name}()")


_KINDS = {bool: ("bool",), int: ("int", "uint"), float: ("float", "bfloat"), complex: ("complex",)}


def _array(value: Any, promised: Described) -> Any:
    """Return a function's result as an array; None if it cannot match the promise.

    A Python number has no dtype, and gets that of the promise if it is of the same kind.
    """
    if type(value) in _KINDS:
        if promised.shape or not promised.name.startswith(_KINDS[type(value)]):
            return None
        array = convert(numpy.asarray(value), "numpy", dtype=promised.name)
        return array if type(value) is not int or int(array) == value else None
    return numpy.asarray(value) if isinstance(value, numpy.generic) else value


def _explained(array: Any) -> Any:
    """Explain how an array of any framework is copied; None for anything else."""
    try:
        return explain(array, "numpy", copy=True)
    except UnsupportedArrayError:
        return None


def _matches(array: Any, promised: Described) -> bool:
    record = _explained(array)
    return record is not None and record.shape == promised.shape and record.dtype == promised.name


def _text(value: Any) -> str:
    """Describe a value in a message."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    record = _explained(value) if hasattr(value, "shape") else None
    if record is not None:
        return str(Described(record.shape, record.dtype))
    return f"{value!r}" if value is None or type(value) in _KINDS else type(value).__name__


# JAX


def described(arrays: Iterable[Any]) -> list[Any]:
    """Describe arrays without their values, for JAX."""
    import jax

    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def _as_jax_reads(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Return a result in the byte order of the machine. Refuse masks, which JAX would drop."""
    if isinstance(array, numpy.ma.MaskedArray):
        convert(array, "jax")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


class _JaxCall(Call):
    """A call without its JAX arrays. JAX compiles equal calls once."""

    def __init__(self, promise: Promise, arguments: Arguments) -> None:
        self.promise, self.arguments, self.modes = promise, arguments, Modes()
        # By shapes and dtypes. Copies with other numbers are in a program with the same results.
        self.known: dict[Any, list[Described]] = {}

    @property
    def name(self) -> str:
        return self.promise.name

    @property
    def _key(self) -> tuple[Any, ...]:
        return ((self.promise, self.arguments, self.modes),)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        with self.modes.on():
            return tuple(map(_as_jax_reads, self.compute(arrays, "numpy")))

    def promised(self, arrays: Sequence[Any]) -> list[Described]:
        shapes = tuple([(array.shape, array.dtype) for array in arrays])

        def made() -> list[Described]:
            found = self.promise.of(*self.arguments.filled(described(arrays)))
            return [*map(Described.of, described(found))]

        return remembered(self.known, shapes, made)

    def compute(self, arrays: Sequence[Any], target: Any) -> list[Any]:
        args, kwargs = self.arguments.filled(arrays)
        promised = self.promised(arrays)
        value = self.promise.function(*args, **kwargs)
        return self.promise.kept(value, promised, target, [None] * len(promised))

    def gradients(
        self, backward: Callable[..., Any], gradient: Any, arrays: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the gradients of the JAX arrays, in their order."""
        import jax

        args, kwargs = self.arguments.filled(arrays)
        if Arguments.of(library("jax"), kwargs)[0]:
            raise TypeError(
                f"{self.promise.name}() has gradients of arguments that are passed by position; "
                "pass arrays in that way"
            )
        given = self.promise.by_argument(backward(gradient, *args, **kwargs), args)
        leaves: list[Any] = []
        for argument, each in zip(args, given, strict=True):
            tree = jax.tree_util.tree_structure(argument)
            empty = each is None
            leaves += [None] * tree.num_leaves if empty else tree.flatten_up_to(each)
        pairs = zip(leaves, self.arguments.rest, strict=False)
        return tuple(leaf for leaf, place in pairs if place is HERE)


# PyTorch


class _TorchCall:
    """The functions that PyTorch calls for an operator."""

    def __init__(self, promise: Promise, backward: Callable[..., Any] | None) -> None:
        self.promise, self.backward = promise, backward
        # By shapes, dtypes and the other arguments, and the dtype of new tensors.
        self.known: dict[Any, list[tuple[Described, str | None]]] = {}

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        import torch

        tensors: list[Any] = []
        key: list[Any] = [torch.get_default_dtype(), *kwargs]

        def own(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                # PyTorch records the operator, and the function does not see that.
                tensors.append(value := value.detach())
                key.append((value.shape, value.dtype))
            elif isinstance(value, (list, tuple)):
                key.append(len(value))
                return [*map(own, value)]
            else:
                key.append((type(value), repr(value)))
            return value

        args, kwargs = tuple(map(own, args)), {name: own(kwargs[name]) for name in kwargs}
        promised = remembered(self.known, tuple(key), lambda: self.promised(args, kwargs))
        # The name of a device is read faster than PyTorch's object.
        home = str(tensors[0].device) if tensors else "cpu"
        devices = [home if device is None else device for _, device in promised]
        value = self.promise.function(*args, **kwargs)
        results = self.promise.kept(value, [each for each, _ in promised], "torch", devices)
        return self.promise.alone(_fresh(results, tensors))

    def promised(self, args: Any, kwargs: Any) -> list[tuple[Described, str | None]]:
        """Return what describes the results, and their devices: None for that of the arguments."""
        tensors, arguments = Arguments.of(library("torch"), (args, kwargs))
        found = self.promise.of(*arguments.filled([tensor.to("meta") for tensor in tensors]))
        own = [None if each.device.type == "meta" else str(each.device) for each in found]
        return [*zip(map(Described.of, found), own, strict=True)]

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Return tensors like the results, without values."""
        import torch

        promised = self.promise.of(args, kwargs)
        return self.promise.alone(
            [torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in promised]
        )

    def mapped(self, op: Any, info: Any, axes: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the operator for each element of a batch."""

        def listed(run: Callable[..., Any]) -> Callable[..., list[Any]]:
            return lambda *part: self.promise.listed(run(*part, **kwargs))

        call, without_values = listed(op), listed(self.fake)
        stacked = library("torch").mapped(call, without_values, info.batch_size, axes, args)
        return self.promise.alone(stacked), self.promise.alone([0] * len(stacked))

    def save(self, ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        """Keep the values from which the gradients are computed."""
        given = (inputs, keyword_only_inputs or {})
        tensors, ctx.arguments = Arguments.of(library("torch"), given)
        ctx.save_for_backward(*tensors)

    def gradients(self, ctx: Any, *gradients: Any) -> Any:
        assert self.backward is not None
        args, kwargs = ctx.arguments.filled(ctx.saved_tensors)
        made = self.backward(self.promise.alone(gradients), *args, **kwargs)
        return self.promise.by_argument(made, args)


def _fresh(results: list[Any], inputs: list[Any]) -> list[Any]:
    """Return the results, contiguous, in memory that neither the inputs nor other results use.

    A compiler may write to the memory of values that are no longer used.
    """
    import torch

    def span(tensor: Any) -> tuple[int, int]:
        storage = tensor.untyped_storage()
        start: int = storage.data_ptr()
        return start, start + storage.nbytes()

    taken = [span(tensor) for tensor in inputs]
    for at, tensor in enumerate(results):
        start, stop = own = span(tensor)
        if any([max(start, first) < min(stop, last) for first, last in taken]):
            results[at] = tensor.clone(memory_format=torch.contiguous_format)
        elif not tensor.is_contiguous():
            results[at] = tensor.contiguous()
        taken.append(own if results[at] is tensor else span(results[at]))
    return results


# How programs call a function


class ProgramPlan(NamedTuple):
    """How compiled programs of a framework call a declared function.

    Examples
    --------
    >>> import arraybridge
    >>> plan = arraybridge.explain_program(arraybridge.jax(lambda image: image), "torch")
    >>> plan.framework, plan.is_native
    ('torch', False)
    """

    function: str
    """The name of the function."""
    framework: str
    """The framework that compiles the programs."""
    is_native: bool
    """Whether a program calls the function itself, without Python."""
    why: str | None
    """Why it does not; None if it does."""


def explain_program(function: Any, framework: str) -> ProgramPlan:
    """Explain how programs that a framework compiles call a declared function.

    Parameters
    ----------
    function : callable
        A declared function, in Rust or Python.
    framework : str
        The framework that compiles the programs, such as "jax", which is imported.

    Raises
    ------
    TypeError
        If the function is not declared.

    Examples
    --------
    >>> import arraybridge
    >>> plan = arraybridge.explain_program(arraybridge.numpy(lambda image: image), "torch")
    >>> plan.is_native, plan.why
    (False, 'it is not written in Rust')
    """
    known = _known(function) if _is_declared(function) else None
    if known is None:
        raise TypeError(f"{function!r} is not declared")
    code = known[1]
    why = _reason(function, code, framework)
    name = getattr(code, "__qualname__", type(code).__qualname__)
    return ProgramPlan(name, framework, why is None, why)


def _reason(declared: Any, code: Any, framework: str) -> str | None:
    is_native = getattr(code, "_is_native", None)
    if is_native is None:
        return "it is not written in Rust"
    if not is_native:
        return _without_rule(code, getattr(declared, "_writes", None) or ())
    if framework not in OWN:
        return f"{framework} compiles no programs"
    try:
        found: str | None = library(framework).no_operator(code)
    except ImportError as error:
        return str(error)
    return found


_NUMBERS = {"bool", "int", "float", "None"}


def _without_rule(code: Any, writes: Any) -> str:
    for name, parameter in inspect.signature(code).parameters.items():
        kind = str(parameter.annotation)
        if name in writes:
            return f"it writes to {name!r}"
        if kind.startswith("Array["):
            if "|" in kind.partition(",")[0]:
                return f"{name!r} takes arrays of several dtypes"
        elif not {part.strip() for part in kind.split("|")} <= _NUMBERS:
            return f"{name!r} is {kind}, which needs Python"
    return "it has no rule for the shapes of its results, such as result = image"
