"""Rust functions with a rule for the shapes of their results, as operators of PyTorch.

PyTorch calls the function itself, without Python. Tensors without values, gradients
and batches are described here.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..exceptions import AliasedArgumentError, NotDifferentiableError
from . import torch as library
from .described import Arguments, Described, chosen, is_inexact, spread
from .dynamo import CANDIDATES, NATIVE, Candidate, _register_cast
from .function import Function, Pullback, no_derivative
from .modes import Modes

__all__: list[str] = []


class Operator(NamedTuple):
    """What a call of the operator takes: arrays, then numbers."""

    namespace: str
    name: str
    arrays: tuple[tuple[str, str], ...]
    """The names, and their dtypes."""
    numbers: tuple[tuple[str, str], ...]
    origins: tuple[Any, ...]
    written: tuple[int, ...]
    """The array that each result is, if the operator writes to those and returns nothing."""
    casts: bool
    stops: bool
    """Whether gradients end there."""
    device: str
    """The kind of device that has the arrays."""

    @property
    def call(self) -> Any:
        return getattr(getattr(torch.ops, self.namespace), self.name).default


_OPERATORS: dict[tuple[str, int], list[Any]] = {}


REFUSED: dict[tuple[str, int], str] = {}
"""Why functions have no operator."""


def operator(candidate: Candidate, by_hand: Any = None) -> Operator | None:
    """Return the operator of a Rust function with a derivative; None if this PyTorch takes none."""
    known = _OPERATORS.setdefault(candidate.function._key, [])
    for derivative, found in known:
        if derivative is by_hand:
            return found  # type: ignore[no-any-return]
    known.append((by_hand, _registered(candidate, by_hand)))
    return known[-1][1]  # type: ignore[no-any-return]


def _registered(candidate: Candidate, by_hand: Any) -> Operator | None:
    code = candidate.function
    path, _ = code._target()
    namespace, _, name = path.partition("::")
    name = name.replace("::", "_")
    # PyTorch keeps compiled gradients in files, and finds them by the names of operators alone.
    if by_hand is not None:
        name += f"_{uuid.uuid4().hex}"
    # Another module may have a function of this name.
    while hasattr(getattr(torch.ops, namespace), name):
        name += "_"
    ending = "dylib" if sys.platform == "darwin" else "so"
    folder = pathlib.Path(torch.__file__).parent / "lib"
    files = str(folder / f"libtorch_cpu.{ending}"), str(folder / f"libtorch_cuda.{ending}")
    try:
        code._register(files, name, namespace)
    except RuntimeError as error:
        REFUSED[code._key] = f"PyTorch {torch.__version__} takes none: {error}"
        return None
    arrays, numbers, origins, written, *flags = code._operator()
    lists = tuple(arrays), tuple(numbers), tuple(origins), tuple(written)
    found = Operator(namespace, name, *lists, *flags)
    full = f"{namespace}::{name}"

    def without_values(*given: Any) -> Any:
        return _without_values(code, found, given)

    def mapped(info: Any, axes: Any, *given: Any) -> Any:
        def call(*part: Any) -> list[Any]:
            return _listed(found.call(*part))

        columns = library.mapped(
            call, lambda *part: _listed(without_values(*part)), info.batch_size, axes, given
        )
        is_one = len(columns) == 1
        return (columns[0], 0) if is_one else (tuple(columns), (0,) * len(columns))

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        count = len(found.arrays)
        ctx.save_for_backward(*inputs[:count])
        ctx.numbers, ctx.floats = inputs[count:], [*map(is_inexact, _listed(output))]

    def backward(ctx: Any, *gradients: Any) -> Any:
        return _pulled(candidate, by_hand, found, ctx, gradients)

    # A program that is saved has it too.
    _register_cast()
    torch.library.register_fake(full, without_values)
    if found.written:
        _register_writes(found, candidate)
        return found
    torch.library.register_vmap(full, mapped)
    torch.library.register_autograd(full, backward, setup_context=keep)
    return found


def _register_writes(found: Operator, candidate: Candidate) -> None:
    """Have PyTorch count the writes of an operator, and refuse gradients."""

    def refusing(keys: Any, *given: Any) -> None:
        tensors = given[: len(found.arrays)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            _pulled(candidate, None, found, None, ())
        with torch._C._AutoDispatchBelowAutograd():
            found.call.redispatch(keys & torch._C._after_autograd_keyset, *given)

    def counting(keys: Any, *given: Any) -> None:
        for at in found.written:
            torch.autograd.graph.increment_version(given[at])
        found.call.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *given)

    library = torch.library.Library(found.namespace, "FRAGMENT")
    library.impl(found.name, refusing, "Autograd", with_keyset=True)
    library.impl(found.name, counting, "ADInplaceOrView", with_keyset=True)
    _LIBRARIES.append(library)


_LIBRARIES: list[Any] = []
"""PyTorch forgets what was registered together with these."""


def _expect_apart(found: Operator, arrays: Sequence[Any], name: str) -> None:
    """Refuse an array that is written to, if another one has memory in common with it."""
    for at in found.written:
        for other, array in enumerate(arrays):
            is_shared = StorageWeakRef(array.untyped_storage()) == StorageWeakRef(
                arrays[at].untyped_storage()
            )
            if other != at and is_shared and _overlap(arrays[at], array):
                raise AliasedArgumentError(
                    f"{name}() writes to '{found.arrays[at][0]}', whose memory overlaps that of "
                    f"'{found.arrays[other][0]}'; pass a copy of one of them"
                )


def _overlap(one: Any, other: Any) -> bool:
    """Return whether two tensors of one storage have a byte in common, or may have."""

    def place(tensor: Any) -> Any:
        size = tensor.element_size()
        described = {
            "data": (_PAGE + size * _hint(tensor.storage_offset()), True),
            "shape": tuple(map(_hint, tensor.shape)),
            "strides": tuple(size * _hint(step) for step in tensor.stride()),
            "typestr": f"|V{size}",
            "version": 3,
        }
        # Nobody reads what is there.
        return numpy.asarray(types.SimpleNamespace(__array_interface__=described))

    try:
        # The stubs of NumPy before 2.5 know two numbers.
        most: Any = 10_000
        return numpy.shares_memory(place(one), place(other), max_work=most)
    except numpy.exceptions.TooHardError:
        return True


_PAGE = 1 << 16


def _listed(made: Any) -> list[Any]:
    return [*made] if isinstance(made, (tuple, list)) else [made]


def _without_values(code: Any, found: Operator, given: Sequence[Any]) -> Any:
    """Return results without values, whose lengths may be symbols."""
    count = len(found.arrays)
    arrays, numbers = given[:count], given[count:]
    shapes = [[*array.shape] for array in arrays]
    for _, axes in found.origins:
        for is_same, sources in axes:
            for array, axis in () if is_same else sources:
                # What Rust computes is known for one length only: the program is compiled again.
                every = axis == sys.maxsize
                for at in range(len(shapes[array])) if every else (axis,):
                    shapes[array][at] = int(shapes[array][at])
    known = [
        Described([_hint(length) for length in shape], array.dtype)
        for shape, array in zip(shapes, arrays, strict=True)
    ]
    names = [name for name, _ in (*found.arrays, *found.numbers)]
    call = dict(zip(names, [*known, *numbers], strict=True))
    _, _, results, is_tuple = code._describe(**call)
    made = []
    for (dtype, shape), (like, axes) in zip(results, found.origins, strict=True):
        lengths = shapes[like] if like is not None else [*shape]
        for at, (is_same, sources) in enumerate(axes):
            if is_same:
                array, axis = sources[0]
                lengths[at] = shapes[array][axis]
        made.append(arrays[0].new_empty(lengths, dtype=getattr(torch, dtype)))
    if found.written:
        return _expect_apart(found, arrays, code.__name__)
    return tuple(made) if len(made) != 1 else made[0]


def _hint(length: Any) -> int:
    """Return a length, or an example of one. The operator checks that of each call."""
    node = getattr(length, "node", None)
    return int(node.hint if node is not None and node.has_hint() else length)


# Gradients


class Unread:
    """A tensor, where the code of a derivative expects an array of the function's framework.

    It is passed on and given to Rust functions. Nothing else can be done with it.
    """

    without_values = True

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    @property
    def dtype(self) -> Any:
        return self._tensor.dtype

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("there are no values while a program is compiled")

    __array__ = __array_function__ = __array_ufunc__ = __dlpack__ = _refuse
    __bool__ = __eq__ = __ne__ = __format__ = __str__ = __reduce_ex__ = _refuse  # type: ignore[assignment]


class _Read(Function):
    """A function with a derivative by hand, read with the tensors of a program."""

    @staticmethod
    def beside(arrays: Sequence[Any], call: Callable[[], Any]) -> Any:
        return call()

    def as_array(self, leaf: Any) -> Any:
        if not isinstance(leaf, Unread):
            raise TypeError(f"{leaf!r} is no array of the program")
        return leaf

    def as_gradient(self, gradient: Any, array: Any) -> Any:
        like = array._tensor
        if gradient is None:
            return Unread(torch.zeros_like(like))
        found = self.as_array(gradient)._tensor
        if found.shape != like.shape:
            raise TypeError("a gradient has another shape than its argument")
        return Unread(found.to(like.dtype))


_KEYS: dict[Any, str] = {}


def _pulled(
    candidate: Candidate, by_hand: Any, found: Operator, ctx: Any, gradients: Sequence[Any]
) -> Any:
    """Return the gradient of each argument of an operator."""
    code, name = candidate.function, candidate.name
    if by_hand is None:
        raise NotDifferentiableError(
            "torch", "Rust", "gradient",
            no_derivative(name, code)
            if found.written
            else f"the operator has no derivative; call {name}() itself, with "
            f"{name}.defvjp(forward, backward), or detach its arrays",
            f"{name}()",
        )  # fmt: skip
    arrays, seeds = [*ctx.saved_tensors], chosen(gradients, ctx.floats)
    names = [name for name, _ in (*found.arrays, *found.numbers)]
    given = dict(zip(names, [*arrays, *ctx.numbers], strict=True))
    arguments = Arguments.of(library, (_positional(code, by_hand[0], given), {}))[1]
    needed = zip(ctx.needs_input_grad, arrays, strict=False)
    mask = tuple(is_needed and is_inexact(array) for is_needed, array in needed)
    about = code, candidate.framework, name, by_hand, arguments, mask

    def unread(tensor: Any) -> Unread:
        is_recorded = torch.is_grad_enabled() or not tensor.requires_grad
        return Unread(tensor if is_recorded else tensor.detach())

    try:
        _, _, pull = _Read(*about).linearize_by_hand([*map(unread, arrays)])
        pulled = [each._tensor for each in pull([*map(unread, seeds)])]
    except Exception:
        # It does more than call Rust functions: the program calls it, and has its errors.
        from .operator import _derived, _register

        _register()
        known = candidate.number, by_hand, arguments, mask, tuple(ctx.floats), Modes()
        key = _KEYS.setdefault(known, f"{name} {uuid.uuid4().hex}'")
        pulled = _derived(
            key, lambda: Pullback(Function(*about), tuple(ctx.floats)), [*arrays, *seeds]
        )
    return (*spread(pulled, mask), *[None] * len(found.numbers))


def _positional(code: Any, forward: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of ``forward``, which may leave out numbers that have their defaults."""
    parameters = [*inspect.signature(code).parameters.values()]
    args = tuple(given[each.name] for each in parameters)
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return args
    for count in range(len(args), 0, -1):
        try:
            signature.bind(*args[:count])
        except TypeError:
            left = parameters[count - 1].default, args[count - 1]
            if repr(left[0]) != repr(left[1]):
                break
        else:
            return args[:count]
    return args


# Calls


def in_program(code: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a call with tensors that have no values.

    ``NotImplemented`` if they are not for the operator.
    """
    candidate = NATIVE.get(id(code))
    if candidate is None:
        return NotImplemented
    values = [*args, *kwargs.values()]
    unread = [value._tensor for value in values if isinstance(value, Unread)]
    if unread and any(isinstance(value, torch.Tensor) for value in values):
        raise TypeError("a tensor is no array of the program")

    def tensor(value: Any) -> Any:
        return value._tensor if isinstance(value, Unread) else value

    given = {name: tensor(value) for name, value in kwargs.items()}
    made = call(candidate.key, [*map(tensor, args)], given, candidate.name)
    if made is None:
        return NotImplemented
    if not unread:
        return made[0]
    # The policy of such a function is its own: it gives the dtypes of its signature.
    found = tuple(map(Unread, _listed(made[0])))
    return found[0] if isinstance(made[0], torch.Tensor) else found


# What Dynamo reads


def plan(key: str, carries: bool) -> Any:
    """Return how an operator is called; None if there is none, or if it is called otherwise.

    Dynamo calls this while it compiles, and takes the result for a constant.
    """
    candidate = CANDIDATES[int(key)]
    if not getattr(candidate.function, "_is_native", False):
        return None
    if torch._C._functorch.get_interpreter_stack():
        return None
    found, by_hand = operator(candidate), candidate.options.get("vjp")
    if found is None:
        return None
    stops = False
    if carries and by_hand is not None:
        # Another process knows the operator alone.
        if not torch.compiler.is_exporting():
            found = operator(candidate, by_hand)
    elif carries:
        # The call is recorded otherwise, or refused with a reason.
        if not found.stops or found.written:
            return None
        stops = True
    assert found is not None
    parameters = inspect.signature(candidate.function).parameters.values()
    defaults = tuple(
        (
            each.name,
            each.default is not each.empty,
            None if each.default is each.empty else each.default,
        )
        for each in parameters
    )
    flags = found.written, found.casts, stops, found.device
    return found.namespace, found.name, defaults, found.arrays, found.numbers, *flags


plan._dynamo_marked_constant = True  # type: ignore[attr-defined]


def call(key: str, args: Any, kwargs: Any, name: str) -> Any:
    """Return the result of a call in a graph, in a tuple; None if it is called otherwise.

    Dynamo reads this.
    """
    from .dynamo import _cast
    from .operator import template

    carries = False
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            carries = True
    planned = plan(key, carries)
    if planned is None:
        return None
    namespace, operator_name, parameters, arrays, numbers, *flags = planned
    written, casts, stops, device = flags
    if len(args) > len(parameters):
        return None
    given = {}
    left_out = {}
    for at, (parameter, has_default, default) in enumerate(parameters):
        if at < len(args):
            if parameter in kwargs:
                return None
            given[parameter] = args[at]
        elif parameter in kwargs:
            given[parameter] = kwargs[parameter]
        elif has_default:
            given[parameter] = None
            left_out[parameter] = default
        else:
            return None
    for key in kwargs:
        if key not in given:
            return None
    passed: list[Any] = []
    for parameter, dtype in arrays:
        array = given[parameter]
        if not isinstance(array, torch.Tensor) or array.device.type != device:
            return None
        if stops:
            array = array.detach()
        wanted = getattr(torch, dtype)
        if array.dtype != wanted:
            if not casts or len(passed) in written:
                return None
            array = _cast(array, wanted, name, torch)
        passed.append(array)
    for parameter, dtype in numbers:
        if parameter in left_out:
            passed.append(left_out[parameter])
            continue
        found = template(given[parameter], [], torch.Tensor)
        if found is None or found[0] != "value":
            return None
        value = found[1]
        is_float = dtype.startswith("float")
        if dtype == "bool":
            fits = value is None or type(value) is bool
        elif is_float:
            fits = value is None or type(value) in (int, float)
        else:
            fits = value is None or (type(value) is int and -(2**63) <= value < 2**63)
        if not fits:
            return None
        passed.append(float(value) if is_float and value is not None else value)
    made = getattr(getattr(torch.ops, namespace), operator_name)(*passed)
    if not written:
        return (made,)
    results = tuple([passed[at] for at in written])
    return (results if len(results) > 1 else results[0],)
