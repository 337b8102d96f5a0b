"""JAX: its trees and arrays, its derivatives, and a call as an operation with a custom VJP."""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy

from .._core import convert  # type: ignore[import-not-found]
from ..exceptions import UnexpectedResultError, UnsupportedDtypeError
from .described import Call, Described, chosen, dtype_name, is_inexact, listed, numpy_dtype, spread
from .function import Cell, Function, Pull, Pullback, Pulled, Results

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


is_traced = carries


def stopped(leaf: Any) -> Any:
    """Return an array through which no gradient flows back."""
    return jax.lax.stop_gradient(leaf) if is_array(leaf) else leaf


def plain(leaf: Any) -> Any:
    """Return an array whose parts are not on several devices."""
    if carries(leaf) or not is_array(leaf) or len(leaf.devices()) == 1:
        return leaf
    return jax.device_get(leaf)


def of_number(leaf: Any) -> Any:
    return jax.numpy.asarray(leaf)


def conjugate(array: Any) -> Any:
    return array.conj() if dtype_name(array.dtype).startswith("complex") else array


def recording() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def cells() -> list[Cell]:
    """Return what any function may change: nothing in JAX."""
    return []


def linearize(function: Function, arrays: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
    apply = pulled if function.has_program else _apply
    if function.has_program:
        results, form, pull = _by_program(function, arrays)
    else:
        results, form, pull = _linearize(function, (), *arrays)
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
    # Below a transformation, JAX has numbers of Python as they are.
    arrays = alike([*map(jax.numpy.asarray, arrays)])

    def at_home(results: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        bound = (array for array in arrays if _home(array) and is_inexact(array))
        return _taken(results, [next(bound, None)] * len(results))

    @jax.custom_vjp
    def primal(*arrays: Any) -> Any:
        if not any(map(carries, arrays)):
            results, form = function.made(arrays)
            forms.append(form)
            return at_home(results, arrays), []
        promised, form = function.described(arrays)
        forms.append(form)
        made = _by_operator(function, promised, arrays)
        if made is not None:
            return made, []
        function.expect_operator()
        state = [*map(Described.of, function.state())]
        made = callback(_Call(function, promised), (*promised, *state), arrays, "sequential")
        return made[: len(promised)], made[len(promised) :]

    def forward(*arrays: Any) -> Any:
        if not any(map(carries, arrays)):
            found, form, pull = function.recorded(arrays)
            forms.append(form)
            results, state = at_home(found, arrays), []
        else:
            (results, state), pull = primal(*arrays), None
        made = _Static((pull, tuple(map(is_inexact, results))))
        return (results, state), (arrays, state, made)

    def backward(kept: Any, gradients: Any) -> Any:
        arrays, state, made = kept
        pull, floats = made.value
        given = chosen(gradients[0], floats)
        if pull is None or any(map(carries, arrays)):
            pullback = Pullback(function, floats, state)
            found, _ = embed(pullback, [*arrays, *given, *state])
        elif any(map(carries, given)):
            found, _ = embed(Pulled(function, pull, arrays, len(given)), given)
        else:
            found = _taken(pull(given), chosen(arrays, function.mask))
        return tuple(spread(found, function.mask))

    primal.defvjp(forward, backward)
    return primal(*arrays)[0], forms[-1]


def _by_operator(
    function: Function, promised: Sequence[Described], arrays: Sequence[Any]
) -> list[Any] | None:
    """Return the results of a Rust function that the program itself calls; None if it cannot."""
    described = [*map(Described.of, arrays)]
    found = None
    if function.is_native and no_operator(function.code) is None:
        found = function.by_rule(described)
    if found is None:
        return None
    operands, numbers, _, _ = found
    # An array of another framework is a constant of the program.
    own = {id(each): array for each, array in zip(described, arrays, strict=True)}
    dtypes = [jax.numpy.dtype(each.name) for each in promised]
    _expect(function.name, dtypes)
    pairs = zip(promised, dtypes, strict=True)
    shaped = [jax.ShapeDtypeStruct(each.shape, dtype) for each, dtype in pairs]
    # A batch is a loop: the function has a fixed number of axes.
    # XLA makes a copy of an array that is written to, unless nobody needs it as it was.
    aliases = {at: number for number, at in enumerate(function.code._operator()[3])} or None
    run = jax.ffi.ffi_call(
        operator(function.code), shaped, vmap_method="sequential", input_output_aliases=aliases
    )
    given = alike(
        [convert(own.get(id(each), each), "jax", dtype=dtype) for each, dtype in operands]
    )
    attributes = {name: numpy.dtype(dtype).type(value) for name, dtype, value in numbers}
    return _varying(run(*given, **attributes), frozenset().union(*map(_axes, given)))


def no_operator(code: Any) -> str | None:
    """Return why a Rust function is no operator here; None if it is one."""
    backend = jax.default_backend()
    if backend == ("gpu" if code._device == "cuda" else "cpu"):
        return None
    reason = f"JAX's default backend is {backend}"
    return f"it works in CUDA memory, and {reason}" if code._device == "cuda" else reason


_TARGETS: dict[tuple[str, int], str] = {}


def operator(code: Any) -> str:
    """Return the name under which JAX knows a Rust function, which a saved program has too."""
    name = _TARGETS.get(code._key)
    if name is None:
        name, handler = code._target()
        if name in _TARGETS.values():
            name += f" {len(_TARGETS)}"
        # Elsewhere, a function that works in CUDA memory says so.
        for platform in ("cpu", "CUDA") if code._device == "cuda" else ("cpu",):
            jax.ffi.register_ffi_target(name, handler, platform=platform)
        _TARGETS[code._key] = name
    return name


def _expect(name: str, dtypes: Sequence[Any]) -> None:
    """Refuse a dtype that JAX lacks at the moment."""
    if not jax.config.jax_enable_x64 and (lacking := [*filter(_is_wide, dtypes)]):
        raise UnsupportedDtypeError(
            "numpy", "jax", "trace",
            f"JAX has no {lacking[0].name} while x64 is off; return and describe another dtype, or "
            'call jax.config.update("jax_enable_x64", True) first',
            f"{name}()",
        )  # fmt: skip


def _axes(array: Any) -> frozenset[Any]:
    """Return the axes of ``shard_map`` over which an array varies: each shard has its own."""
    kind: Any = jax.typeof(array) if hasattr(jax, "typeof") else None
    kind = getattr(kind, "manual_axis_type", kind)
    axes: Any = getattr(kind, "varying", None) or getattr(kind, "vma", frozenset())
    return axes


def alike(arrays: Sequence[Any]) -> list[Any]:
    """Return arrays that vary over the same axes. JAX adds up gradients of those that did not."""
    return _varying(arrays, frozenset().union(*map(_axes, arrays)))


def _varying(arrays: Sequence[Any], axes: frozenset[Any]) -> list[Any]:
    """Return arrays that vary over these axes too, as results of a callback for each shard do."""
    cast = getattr(jax.lax, "pcast", None) or (lambda x, axes, to: jax.lax.pvary(x, axes))
    missing = [tuple(axes - _axes(array)) if axes else () for array in arrays]
    pairs = zip(arrays, missing, strict=True)
    return [cast(each, more, to="varying") if more else each for each, more in pairs]


def callback(
    call: Any, promised: Sequence[Any], arrays: Sequence[Any], vmap_method: str | None
) -> list[Any]:
    """Return the results of a call with these arrays, as described, which a program makes."""
    if not any(map(carries, arrays)):
        return [*map(jax.numpy.array, call(*map(plain, arrays)))]
    (bare, numbers), name = call.apart(), call.name
    if numbers:
        call = _Numbered(bare, tuple(map(type, numbers)))
        arrays = alike([*arrays, call.packed(numbers)])
    shapes = [(*map(int, each.shape),) for each in promised]
    dtypes = [jax.numpy.dtype(dtype_name(each.dtype)) for each in promised]
    _expect(name, dtypes)
    # JAX narrows what passes through a thread in which x64 is off.
    halved = any(map(_is_wide, (*dtypes, *[array.dtype for array in arrays]))) and not _x64()
    made: Any = tuple(zip(shapes, dtypes, strict=True))
    if halved:
        call = _Halved(call, tuple(array.dtype for array in arrays))
        arrays = [*map(_halves, arrays)]
        made = tuple(_of_halves(*each) for each in made)
    shaped = tuple(jax.ShapeDtypeStruct(*each) for each in made)
    found = [*jax.pure_callback(call, shaped, *arrays, vmap_method=vmap_method)]
    if halved:
        pairs = zip(found, dtypes, strict=True)
        found = [_whole(array, dtype) for array, dtype in pairs]
    return _varying(found, frozenset().union(*map(_axes, arrays)))


def _x64() -> bool:
    """Return whether x64 is on in threads that JAX makes."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(jax.config.jax_enable_x64))
    thread.start()
    thread.join()
    return found[0]


def _is_wide(dtype: Any) -> bool:
    return dtype_name(dtype) in ("int64", "uint64", "float64", "complex128")


def _of_halves(shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
    wide = _is_wide(dtype)
    return ((*shape, dtype.itemsize // 4), jax.numpy.dtype("uint32")) if wide else (shape, dtype)


def _halves(array: Any) -> Any:
    """Return the elements of 64 bits as 32 bits each, along one more axis."""
    if not _is_wide(array.dtype):
        return array
    if array.dtype == "complex128":
        parts = [_halves(array.real), _halves(array.imag)]
        return jax.numpy.concatenate(parts, -1)
    return jax.lax.bitcast_convert_type(array, "uint32")


def _whole(array: Any, dtype: Any) -> Any:
    if not _is_wide(dtype):
        return array
    if dtype == "complex128":
        return jax.lax.complex(_whole(array[..., :2], "float64"), _whole(array[..., 2:], "float64"))
    return jax.lax.bitcast_convert_type(array, dtype)


class _Numbered(NamedTuple):
    """A call whose numbers come as one more array, of bytes."""

    call: Any
    types: tuple[type, ...]

    def packed(self, numbers: tuple[Any, ...]) -> Any:
        return jax.numpy.asarray(numpy.frombuffer(struct.pack(self.form, *numbers), "uint8"))

    @property
    def form(self) -> str:
        return "=" + "".join("d" if kind is float else "q" for kind in self.types)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        # Where JAX has made a batch of them, all are equal.
        size = struct.calcsize(self.form)
        numbers = struct.unpack(
            self.form, numpy.asarray(arrays[-1]).tobytes()[:size].ljust(size, b"\0")
        )
        return self.call.bound(numbers)(*arrays[:-1])  # type: ignore[no-any-return]


class _Halved(NamedTuple):
    """A call whose arrays of 64 bits come and go as halves."""

    call: Any
    dtypes: tuple[Any, ...]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        pairs = zip(map(numpy.asarray, arrays), self.dtypes, strict=True)
        found = self.call(*[a.view(d)[..., 0] if _is_wide(d) else a for a, d in pairs])
        return tuple(
            numpy.asarray(each, order="C")[..., None].view("uint32")
            if _is_wide(each.dtype)
            else each
            for each in found
        )


def _taken(results: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    pairs = zip(results, like, strict=True)
    return [convert(each, "jax", copy=True, device=_home(other)) for each, other in pairs]


def _home(array: Any) -> Any:
    """Return the device that an array is bound to; None if it meets arrays of any device."""
    if not is_array(array) or carries(array):
        return None
    devices = array.devices()
    return next(iter(devices)) if array.committed and len(devices) == 1 else None


class _Call(Call):
    """A call that a compiled program of JAX makes."""

    numbered = "function"

    def __init__(self, function: Function, promised: list[Described]) -> None:
        self.function, self.promised = function, promised

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.function, self.promised

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        state = self.function.state()
        results, _ = self.function.made(arrays)
        found = tuple(convert(each, "numpy") for each in results)
        made = [*map(Described.of, found)]
        if made != self.promised:
            raise UnexpectedResultError(
                f"{self.function.name}() returned {listed(made)}, but it was to return "
                f"{listed(self.promised)}; the shapes of its results may depend on shapes only"
            )
        return *found, *state


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


def _by_program(function: Function, arrays: Sequence[Any]) -> Any:
    """Linearize a function that JAX compiles: once for all numbers, unless it has them static."""
    if function.code not in _STATIC:
        try:
            return linearized(*function.apart(), *arrays)
        except (TypeError, ValueError, OverflowError):
            found = linearized(function, (), *arrays)
        _STATIC.add(function.code)
        return found
    return linearized(function, (), *arrays)


_STATIC: weakref.WeakSet[Any] = weakref.WeakSet()


def _linearize(
    function: Function, numbers: tuple[Any, ...], *arrays: Any
) -> tuple[list[Any], Any, Any]:
    function = function.bound(numbers) if numbers else function
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
