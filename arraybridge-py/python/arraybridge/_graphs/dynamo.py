"""Declared functions as ``torch.compile`` sees them.

Dynamo reads Python code and cannot read Rust. It is shown the plain call of the function, followed
by the cast of the dtype policy in operations of PyTorch. The policy itself is asked while the
program is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import inspect
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from .._core import Declared, _watch_dynamo, finish_dtype  # type: ignore[import-not-found]
from .._declared.options import OPTIONS

__all__: list[str] = []


class Candidate:
    """A function of another framework that may be an operator in a graph."""

    def __init__(
        self, function: Any, framework: str, name: str, options: Mapping[str, Any], left: Any
    ) -> None:
        self.function, self.framework, self.name, self.options = function, framework, name, options
        self.left, self.advice = left, left._torchdynamo_disable_msg
        # Graphs take numbers for constants.
        self.number = next(_NUMBERS)
        CANDIDATES[self.number] = self
        # A number may be a symbol to the compiler, and a text is none.
        self.key = str(self.number)

    def refuse(self, reason: str) -> None:
        """Add the reason to the message about the graph break that follows."""
        self.left._torchdynamo_disable_msg = f"{self.advice} ({reason})"


CANDIDATES: weakref.WeakValueDictionary[int, Candidate] = weakref.WeakValueDictionary()
NATIVE: weakref.WeakValueDictionary[int, Candidate] = weakref.WeakValueDictionary()
"""Those of Rust functions with a rule, by the identity of the function."""
_NUMBERS = itertools.count()


def is_compiling() -> bool:
    """Return whether PyTorch reads the code of the caller to compile it."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def in_graph(
    function: Any, memory_types: tuple[str, str, str], options: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return what Dynamo reads in place of a declared function.

    It is called with the declared object and the arguments.
    """
    _, output, execution = memory_types
    conversion = "native" if options.get("differentiable") else None
    conversion = options.get("dtype_conversion") or conversion
    chosen = {n for n, value in options.items() if value is not None and value is not False}
    known = {option.name for option in OPTIONS if not option.has_effect}
    known |= {"output_type", "dtype_conversion"}
    if options.get("scaling") == "clamp":
        known.add("scaling")
    # A Rust function with a rule for the shapes of its results opens its arrays itself.
    is_native = getattr(function, "_is_native", False)
    if is_native:
        known |= {"arrays", "opened", "written", "delivers", "shown"}
    # JAX's compiled functions wrap one.
    code = function if execution == "torch" else inspect.unwrap(function)
    may_be_read = (
        output in ("torch", "input")
        and (execution == "torch" or inspect.isfunction(code) or is_native)
        and not inspect.isgeneratorfunction(code)
        and chosen <= known
    )
    is_plain = may_be_read and execution == "torch" and not is_native
    name = getattr(function, "__qualname__", type(function).__name__)
    if execution == "torch":
        advice = f"{name}() has options or arguments that are beyond a graph of PyTorch"
    else:
        advice = (
            f"{name}() is declared for {execution}, which PyTorch cannot trace. To keep it in the "
            "graph, describe its result with arraybridge.torch_op"
        )
        if output not in ("torch", "input"):
            advice += ', or declare it with output_type="input"'

    # As `torch.compiler.disable` marks a function, without importing torch.
    left = types.FunctionType(outside.__code__, globals(), "outside")
    left._torchdynamo_disable = True  # type: ignore[attr-defined]
    left._torchdynamo_disable_msg = advice  # type: ignore[attr-defined]
    candidate = None
    if may_be_read and not is_plain:
        candidate = Candidate(function, execution, name, options, left)
        if is_native:
            NATIVE[id(function)] = candidate
            for compiler in COMPILERS:
                _after(compiler, functools.partial(_register, compiler, function))

    def call(declared: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch

        from . import native, operator

        # Python runs a frame that Dynamo gave up, though Dynamo read the frame above it.
        if not torch.compiler.is_compiling():
            _leave()
            return left(declared, *args, **kwargs)
        # Dynamo may not be able to read what follows.
        if not is_plain:
            _leave()
        wanted = kwargs.get("dtype_conversion")
        wanted = conversion if wanted is None else wanted
        given = {name: value for name, value in kwargs.items() if name not in _ADDED}
        planned = None
        if not kwargs.get("slice_by_slice"):
            if candidate is not None:
                planned = native.call(candidate.key, args, given, name)
                if planned is None:
                    planned = operator.call(candidate.number, args, given)
            elif is_plain and _all_fit((args, given), torch):
                planned = (function(*args, **given),)
        if planned is None:
            _leave()
            return left(declared, *args, **kwargs)
        result = planned[0]
        lead = _first((*args, *given.values()), torch)
        return result if lead is None else _finished(result, lead, wanted, name, torch)

    return call


_DYNAMO = "torch._dynamo"
_AFTER: dict[str, dict[Callable[[], Any], None]] = {}


def _after(name: str, then: Callable[[], Any]) -> None:
    """Call a function once a module is imported."""
    if name in sys.modules:
        then()
        return
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
    _AFTER.setdefault(name, {})[then] = None


class _Watch(importlib.abc.MetaPathFinder):
    """Waits until modules are imported. Others may look for their specs before."""

    is_looking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in _AFTER or self.is_looking:
            return None
        self.is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: Any) -> None:
                execute(module)
                for then in _AFTER.pop(name, ()):
                    then()

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def read_objects() -> None:
    """Have Dynamo read the objects of declared functions."""
    _after(_DYNAMO, _substitute)


COMPILERS = {_DYNAMO: "torch", "jax": "jax", "tensorflow": "tensorflow"}
"""The modules that compile programs, and the modules here."""


def _register(compiler: str, function: Any) -> None:
    """Register the operator of a Rust function, for programs that another process has saved."""
    # A later call says what is wrong.
    with contextlib.suppress(Exception):
        importlib.import_module(f".{COMPILERS[compiler]}", __package__).operator(function)


@functools.cache
def _substitute() -> None:
    import torch
    from torch._dynamo.variables import builder, user_defined

    call = Declared.__call__
    # PyTorch 2.5 and older have no such functions.
    if hasattr(torch.compiler, "substitute_in_graph"):
        torch.compiler.substitute_in_graph(call, skip_signature_check=True)(_read)
    # A method of an object that is made in a graph comes from nowhere, as the compiler sees it.
    handlers = getattr(builder.SourcelessBuilder, "_type_handlers", {})
    for kind in (Declared, Candidate):
        handlers[kind] = lambda _, value: user_defined.UserDefinedObjectVariable(value)


def _read(declared: Any, /, *args: Any, **kwargs: Any) -> Any:
    return declared._in_graph(declared, args, kwargs)


def outside(declared: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a declared function outside the graph.

    After a break Dynamo makes the call as it is, and would read each frame below it.
    """
    return _unseen(declared, *args, **kwargs)


def _called(declared: Any, /, *args: Any, **kwargs: Any) -> Any:
    return declared(*args, **kwargs)


# The same, once `_leave` has hidden it and all frames below it from Dynamo.
_unseen: Callable[..., Any] = _called


def _leave() -> bool:
    """Have calls outside the graph, which are about to begin, be no matter of Dynamo's."""
    global _unseen
    from torch._dynamo import decorators, disable

    from .torch import Operation

    decorators.skip(outside)
    if _unseen is _called:
        # To hide a function takes longer than most calls, so all calls share one.
        _unseen = disable(_called)
        # PyTorch calls these later, where nothing else hides them.
        for step in ("forward", "setup_context", "backward", "jvp", "vmap"):
            setattr(Operation, step, staticmethod(disable(getattr(Operation, step))))
        _watch_dynamo()
    return True


# Dynamo calls this while it compiles, before the call is made.
_leave._dynamo_marked_constant = True  # type: ignore[attr-defined]


_ADDED = ("dtype_conversion", "slice_by_slice")


def _all_fit(value: Any, torch: Any) -> bool:
    """Return whether no array among the arguments belongs to another framework."""
    # To the compiler of PyTorch 2.6 an array of NumPy has no attributes.
    if isinstance(value, numpy.ndarray):
        return False
    # A number may be a variable to the compiler, which has no attributes.
    if isinstance(value, (torch.Tensor, int, float, complex, str)):
        return True
    if isinstance(value, (tuple, list)):
        return all([_all_fit(item, torch) for item in value])
    if isinstance(value, dict):
        return all([_all_fit(item, torch) for item in value.values()])
    if hasattr(value, "__dataclass_fields__") or hasattr(value, "__attrs_attrs__"):
        return False  # Its arrays are converted outside of the graph.
    return not (hasattr(value, "__dlpack__") or hasattr(value, "__array__"))


def _first(value: Any, torch: Any) -> Any:
    """Return the first tensor in a value."""
    if isinstance(value, torch.Tensor):
        return value
    items: Sequence[Any] = ()
    if isinstance(value, (tuple, list)):
        items = value
    elif isinstance(value, dict):
        items = [*value.values()]
    for item in items:
        found = _first(item, torch)
        if found is not None:
            return found
    return None


def _finished(result: Any, lead: Any, conversion: Any, name: str, torch: Any) -> Any:
    """Return a result whose first tensor has the dtype of the policy."""
    first = _first(result, torch)
    # Lengths that nobody compares stay symbols.
    if first is None or (isinstance(conversion, str) and conversion == "native"):
        return result
    lengths = [*_small(first.shape, lead.shape), *_small(lead.shape, lead.shape)]
    carries = first.requires_grad
    to = _dtype(first.dtype, lead.dtype, conversion, carries, first.dim(), *lengths)
    if to == first.dtype:
        return result
    return _replaced(result, first, _cast(first, to, name, torch), torch)


def _small(shape: Any, lead_shape: Any) -> list[int]:
    """Return small lengths, for which the policy decides as for these.

    They are constants, also where the compiler does not know the lengths.
    """
    found = []
    for length in shape:
        small = 16
        for place, other in enumerate(lead_shape):
            if length == other:
                small = 5 + place
                break
        # Up to four may be channels.
        for few in range(5):
            if length == few:
                small = few
        found.append(small)
    return found


def _dtype(
    dtype: Any, lead_dtype: Any, conversion: Any, carries: bool, ndim: int, *lengths: int
) -> Any:
    """Return the dtype that the policy gives a result."""
    import torch

    # The values do not matter, and zeros are never warned of.
    result = torch.zeros(lengths[:ndim], dtype=dtype, requires_grad=carries)
    lead = torch.zeros(lengths[ndim:], dtype=lead_dtype)
    return finish_dtype(result, lead, dtype_conversion=conversion).dtype


# Dynamo calls this while it compiles, and takes the result for a constant.
_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _cast(tensor: Any, to: Any, name: str, torch: Any) -> Any:
    is_float = tensor.dtype.is_floating_point
    if (is_float or tensor.dtype.is_complex) and (
        to.is_complex or (to.is_floating_point and is_float and to.itemsize > 1)
    ):
        return tensor.to(to)
    if is_float and to in (torch.uint8, torch.int8, torch.uint16, torch.int16):
        limits = torch.iinfo(to)
        wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
        rounded = torch.nan_to_num(wide.round(), 0.0, limits.max, limits.min)
        return rounded.clamp(limits.min, limits.max).to(to)
    # A seldom cast is an operation of ours, which there is once it is registered.
    dtype = _registered(to)
    return torch.ops.arraybridge.cast(tensor, dtype, name)


def _registered(dtype: Any) -> str:
    _register_cast()
    return str(dtype).rpartition(".")[2]


_registered._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.cache
def _register_cast() -> Any:
    import torch

    def cast(tensor, dtype, function):  # type: ignore[no-untyped-def]
        return finish_dtype(tensor, tensor, dtype_conversion=dtype, function=function)

    def without_values(tensor, dtype, function):  # type: ignore[no-untyped-def]
        return tensor.new_empty(tensor.shape, dtype=getattr(torch, dtype))

    schema = "(Tensor tensor, str dtype, str function) -> Tensor"
    op = torch.library.custom_op("arraybridge::cast", cast, mutates_args=(), schema=schema)
    op.register_fake(without_values)
    return op


def _replaced(result: Any, first: Any, cast: Any, torch: Any) -> Any:
    """Return a result with another tensor in the place of its first one."""
    if result is first:
        return cast
    if isinstance(result, dict):
        found: Any = {}
        for key, item in result.items():
            found[key] = _replaced(item, first, cast, torch)
        return found
    if isinstance(result, (tuple, list)):
        items = [_replaced(item, first, cast, torch) for item in result]
        if isinstance(result, list):
            return items
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    return result
