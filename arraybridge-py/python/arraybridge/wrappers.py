"""Take apart objects with an array inside, such as labelled arrays, and make one for the result.

The classes of other libraries are registered in ``_arrays.adapters``, with ``register_wrapper``.
That module is loaded when an object of no framework is met for the first time. No library is
imported.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, final
from weakref import WeakKeyDictionary

from . import _core, _tables  # type: ignore[attr-defined]
from .exceptions import LabelOrderWarning, MetadataDroppedWarning, UnsupportedArrayError

__all__ = ["WrappedCall", "register_wrapper"]

_Unwrap = Callable[[Any], Any]
_Rewrap = Callable[[Any, Any], Any]
_Apply = Callable[[Any, "WrappedCall"], Any]


class _Wrapper(NamedTuple):
    name: str
    unwrap: _Unwrap | None
    rewrap: _Rewrap
    apply: _Apply | None


_registered: dict[type | str, _Wrapper] = {}
_found: WeakKeyDictionary[type, _Wrapper | None] = WeakKeyDictionary()
_KEEP = {None: None, True: "always", False: "never", "strict": "strict"}
_AS_GIVEN = {name: keep for keep, name in _KEEP.items()}


def register_wrapper(
    cls: type | str,
    unwrap: _Unwrap | None,
    rewrap: _Rewrap,
    *,
    apply: _Apply | None = None,
) -> None:
    """Register a class whose objects have an array inside, such as labelled arrays.

    Conversions and declared functions then take the objects for the array inside. A declared
    function with ``output_type="input"`` returns an object like its lead, and so does `convert`
    with ``keep=True``. Subclasses count too. A later registration replaces an earlier one.

    Parameters
    ----------
    cls : type or str
        The class, or its name, such as ``"xarray.DataArray"``. A name imports nothing.
    unwrap : callable or None
        A function of the object that returns the array inside, of any framework. None, as the
        argument or from the function, leaves it to NumPy to make an array of the object.
    rewrap : callable
        A function of the object and of another array, which returns an object like the first with
        the array inside. It raises a ValueError or a TypeError, with the reason, if the object
        cannot hold that array, as where its shape is another one.
    apply : callable, optional
        For objects with several arrays, or with one that is computed later: a function of the
        object and a `WrappedCall`. It calls that with each array, and returns the result.

    Raises
    ------
    TypeError
        If an argument is none of these.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> class Scan:
    ...     def __init__(self, pixels, name):
    ...         self.pixels, self.name = pixels, name
    >>> arraybridge.register_wrapper(
    ...     Scan, lambda scan: scan.pixels, lambda scan, array: Scan(array, scan.name)
    ... )
    >>> flipped = arraybridge.numpy(output_type="input")(lambda image: image[::-1])
    >>> result = flipped(Scan(numpy.arange(3), "one"))
    >>> result.name, result.pixels
    ('one', array([2, 1, 0]))
    """
    if not isinstance(cls, (type, str)):
        kind = type(cls).__name__
        raise TypeError(f"register_wrapper: cls must be a class or its name, not {kind}")
    if isinstance(cls, str) and "." not in cls:
        raise TypeError(f"register_wrapper: name the module too, as in 'xarray.DataArray': {cls!r}")
    if not callable(rewrap):
        raise TypeError("register_wrapper: rewrap must be a function of the object and an array")
    for name, function in (("unwrap", unwrap), ("apply", apply)):
        if function is not None and not callable(function):
            raise TypeError(f"register_wrapper: {name} must be a function of the object, or None")
    global _registered, _found
    from ._arrays import adapters  # noqa: F401 - what it registers comes before

    name = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
    others = {key: value for key, value in _registered.items() if key != cls}
    # The newest comes first. Another thread may be looking through the old ones.
    _registered = {cls: _Wrapper(name, unwrap, rewrap, apply), **others}
    _found = WeakKeyDictionary()
    _core._forget_classes()


@final
class WrappedCall:
    """A call of a function with an array instead of the object that was given.

    `register_wrapper` passes it to ``apply``. It can be pickled if the function can.

    >>> import numpy, arraybridge
    >>> class Pair:
    ...     arrays = (numpy.zeros(2), numpy.ones(2))
    >>> def each(pair, call):
    ...     return [call(array) for array in pair.arrays]
    >>> arraybridge.register_wrapper(Pair, None, lambda pair, array: array, apply=each)
    >>> plus = arraybridge.numpy(output_type="input")(lambda image, by: image + by)
    >>> plus(Pair(), by=1)
    [array([1., 1.]), array([2., 2.])]
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        about: dict[str, Any],
    ) -> None:
        self.function = function
        """The declared function, or a conversion."""
        self.args = args
        """The positional arguments, with a mark where the array goes."""
        self.kwargs = kwargs
        """The keyword arguments."""
        self.name: str = about["name"]
        """The name of the function, for messages."""
        self.options: dict[str, Any] = about["options"]
        """The options of the declaration, such as ``tiles``."""
        self.keep: str | None = about["keep"]
        """``"always"`` and ``"strict"`` say that it may be called for each block of an array."""
        self.dtype: str = about["dtype"]
        """The dtype policy of the call: ``"native"``, or the name of a dtype, for example."""
        self.scaling: str | None = about.get("scaling")
        """How floats become integers: ``"clamp"``, ``"unit"`` or ``"stretch"``."""
        self.dims: tuple[Any, ...] = about.get("dims", ())
        """The names of the axes, where the array was in an object that has them."""
        self.names: list[str | None] = about.get("names", [])
        """The parameters that the positional arguments are passed for."""

    def __call__(self, array: Any, *others: Any) -> Any:
        """Call the function with an array, and with others where ``without`` left arguments out."""
        arrays = (array, *others)

        def given(arg: Any) -> Any:
            return arrays[arg.number] if isinstance(arg, _Place) else arg

        kwargs = {name: given(arg) for name, arg in self.kwargs.items()}
        return self.function(*map(given, self.args), **kwargs)

    def without(
        self, cls: type, also: Callable[[str | None, Any], bool] | None = None
    ) -> tuple[WrappedCall, list[Any]]:
        """Return the call without its other arguments of a class, and these, for ``others``.

        `also` says of the name and the value of any other argument whether it is one of them.
        """
        given: list[Any] = []

        def place(name: str | None, arg: Any) -> Any:
            is_taken = isinstance(arg, cls) or (also is not None and also(name, arg))
            if isinstance(arg, _Place) or not is_taken:
                return arg
            given.append(arg)
            return _Place(len(given))

        names = itertools.chain(self.names, itertools.repeat(None))
        args = tuple(map(place, names, self.args))
        kwargs = {name: place(name, arg) for name, arg in self.kwargs.items()}
        call = WrappedCall(self.function, args, kwargs, vars(self))
        return call, given

    def dropped(self, data: Any, why: str, result: Any) -> Any:
        """Return a result that is not in an object like the one given, and say why."""
        _dropped(data, why, self.name, self.keep)
        return result

    def error(self, data: Any, why: str) -> UnsupportedArrayError:
        """Return the error of an object that the function cannot be called for."""
        target = getattr(self.function, "input_memory_type", "an array")
        return UnsupportedArrayError(_name(data), target, "apply", why, f"{self.name}()")


@final
class _Place:
    """Stands for an argument that is given later."""

    def __init__(self, number: int) -> None:
        self.number = number


_PLACE = _Place(0)


def _is_registered(cls: type) -> bool:
    return _find(cls) is not None


def _find(cls: type) -> _Wrapper | None:
    """The wrapper of a class, by its own name or that of a base."""
    # What is found among the old classes goes nowhere if others are registered meanwhile.
    known = _found
    try:
        return known[cls]
    except KeyError:
        pass
    from ._arrays import adapters  # noqa: F401 - it registers the classes of other libraries

    found = None
    for base in cls.__mro__[:-1]:
        found = next((w for key, w in _registered.items() if _is_called(base, key)), None)
        if found is not None:
            break
    known[cls] = found
    return found


def _is_called(cls: type, key: type | str) -> bool:
    if not isinstance(key, str):
        return cls is key
    module, _, name = key.rpartition(".")
    # The name that a class is imported by may not be the one that it gives itself.
    public = getattr(sys.modules.get(module), name, None)
    return public is cls or key == f"{cls.__module__}.{cls.__qualname__}"


def _name(data: Any) -> str:
    wrapper = _find(type(data))
    return wrapper.name if wrapper is not None else type(data).__name__


def _array_in(wrapper: _Wrapper, data: Any) -> Any:
    """The array inside an object; None if NumPy has to see the object itself."""
    array = wrapper.unwrap(data) if wrapper.unwrap is not None else None
    return None if array is data else array


def _opened(data: Any) -> tuple[str, Any] | None:
    """The name of the class of an object and the array inside, or None instead of that."""
    wrapper = _find(type(data))
    return wrapper and (wrapper.name, _array_in(wrapper, data))


def _is_parted(data: Any) -> bool:
    """Return whether a function is called for an object part by part."""
    wrapper = _find(type(data))
    return wrapper is not None and (
        wrapper.apply is not None or _is_registered(type(_array_in(wrapper, data)))
    )


def _in_parts(
    data: Any, call: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call of a declared function for an object that is taken apart."""
    function, name, options, (dtype, scaling), keep, names = call
    about = {"name": name, "options": options, "keep": keep, "names": names}
    about |= {"dtype": dtype, "scaling": scaling}
    args = tuple(_PLACE if arg is data else arg for arg in args)
    kwargs = {key: _PLACE if arg is data else arg for key, arg in kwargs.items()}
    return _applied(data, WrappedCall(function, args, kwargs, about))


def _refuse_steps(data: Any, name: str) -> None:
    """Refuse a coroutine or a generator that would be called for each part of an object."""
    why = "a coroutine or a generator gives arrays alone; call it for each array, without its unit"
    raise UnsupportedArrayError(_name(data), "an array", "apply", why, f"{name}()")


def _applied(data: Any, call: WrappedCall) -> Any:
    wrapper = _find(type(data))
    assert wrapper is not None
    if wrapper.apply is not None:
        return wrapper.apply(data, call)
    array, call.dims = _array_in(wrapper, data), getattr(data, "dims", ())
    inner = _find(type(array))
    result = call(array) if inner is None or inner.apply is None else inner.apply(array, call)
    return _rewrapped(data, result, call.name, call.keep, call.kwargs.get("out"))


def _rewrapped(data: Any, result: Any, name: str, keep: str | None, out: Any = None) -> Any:
    """A result in an object like `data`. The arrays of a tuple are put into one each.

    `out` is an array of the caller's, which stays what it is.
    """
    wrapper = _find(type(data))
    if wrapper is None or keep == "never":
        return result
    reasons: list[tuple[str, Any]] = []

    def put(value: Any) -> Any:
        if value is out or _core._likeness(value) is None:
            return value
        own = _find(type(value))
        # What the function labelled, or made a table of, stays what it is. A unit goes with labels.
        if own is wrapper or own and own is not _find(type(_array_in(wrapper, data))):
            return value
        try:
            return wrapper.rewrap(data, value)
        except (TypeError, ValueError) as error:
            reasons.append((str(error), value))
            return value

    opened = _core._opened(result) if isinstance(result, (tuple, list, dict)) else None
    if opened is None:
        made = put(result)
    else:
        made = _core._rebuilt(result, [put(item) for item in opened[0]])
    if reasons:
        _dropped(data, reasons[0][0], name, keep, reasons[0][1])
    return made


def _has_same_attributes(one: Any, other: Any) -> bool:
    """Return whether two arrays are of one class and have the same attributes."""
    ours, theirs = (getattr(each, "__dict__", {}) for each in (one, other))
    return (
        type(one) is type(other)
        and ours.keys() == theirs.keys()
        and all(_is_same(value, theirs[name]) for name, value in ours.items())
    )


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        same = one == other
        return type(one) is type(other) and bool(getattr(same, "all", lambda: same)())
    except Exception:  # an object that cannot be compared is another one
        return False


def _of_class(first: Any, made: Any, is_common: bool) -> Any:
    """What was made of arrays like `first`, with the class and the attributes that they have."""
    cls = type(first)
    is_plain = type(made) in cls.__mro__[1:] and _find(cls) is None
    if not is_plain or cls.__module__.split(".")[0] in ("numpy", "torch"):
        return made
    if not is_common:
        text = f"the result is an array and no {cls.__name__}: its parts have other attributes"
        warnings.warn(text, MetadataDroppedWarning, stacklevel=_outside())
        return made
    if hasattr(made, "as_subclass"):
        new = made.as_subclass(cls)
        vars(new).update(vars(first))
        return new
    new = made.view(cls)
    new.__array_finalize__(first)
    return new


def _expect_same_labels(data: Any, out: Any, name: str) -> None:
    """Refuse to write the result for a labelled array to one with other labels."""
    dims, out_dims = (getattr(each, "dims", ()) for each in (data, out))
    if not (isinstance(dims, tuple) and isinstance(out_dims, tuple)):
        return
    common = [dim for dim in dims if dim in out_dims]
    if common != [dim for dim in out_dims if dim in dims]:
        text = f"{name}(): out has the axes {out_dims}, and the first array {dims}"
        raise ValueError(f"{text}; pass out.transpose(..)")
    indexes, out_indexes = (getattr(each, "indexes", {}) for each in (data, out))
    for dim in common:
        one, other = indexes.get(dim), out_indexes.get(dim)
        # An axis of another length is that of another result.
        if one is None or other is None or len(one) != len(other):
            continue
        if not one.equals(other):
            text = f"{name}(): out has other coordinates along {dim!r} than the first array"
            raise ValueError(f"{text}; pass out.variable, or drop them with out.drop_vars")


def _is_out_of_order(given: list[tuple[str, Any]], name: str, keep: str | None) -> bool:
    """Whether arguments have labels in another order, with a warning: arrays meet by position."""
    found = _other_order(given)
    if found is None:
        return False
    names, data, text = found
    why = f"the arguments {names} have {text}"
    if keep == "strict":
        raise UnsupportedArrayError("an array", _name(data), "keep", why, f"{name}(): the result")
    text = f"{name}(): {why}; the function combines them by position, and the result has no labels"
    warnings.warn(f"{text}. If this is intended, pass .data", LabelOrderWarning, _outside())
    return True


def _other_order(given: list[tuple[str, Any]]) -> tuple[str, Any, str] | None:
    """The first two arguments with labels in another order, one of them, and the difference."""
    orders: dict[tuple[Any, ...], str] = {}
    indexes: dict[Any, tuple[str, Any]] = {}
    for name, data in given:
        dims, own = _labels(data)
        for others, other in orders.items():
            wanted = iter([dim for dim in others if dim in dims])
            order = tuple(next(wanted, dim) if dim in others else dim for dim in dims)
            if order != dims:
                text = f"the axes {others} and {dims}: pass the second .transpose{order}"
                return f"{other} and {name}", data, text
        orders.setdefault(dims, name)
        for dim, index in own.items():
            other, known = indexes.setdefault(dim, (name, index))
            if _is_reordered(known, index):
                text = f"the same labels along {dim!r} in another order"
                return f"{other} and {name}", data, f"{text}: pass the second .reindex_like(..)"
    return None


def _labels(data: Any) -> tuple[tuple[Any, ...], dict[Any, Any]]:
    """The names of the axes and the labels along them, if its library aligns by them."""
    library, _, cls = _name(data).partition(".")
    # The dims of a data set have no order.
    if library == "xarray" and cls != "Dataset":
        return data.dims, dict(getattr(data, "indexes", {}))
    axes = data.axes if library == "pandas" else ()
    return (), dict(zip(("index", "columns"), axes, strict=False))


def _is_reordered(one: Any, other: Any) -> bool:
    if len(one) != len(other) or one.equals(other):
        return False
    return bool(one.isin(other).all() and other.isin(one).all())


def _dropped(data: Any, why: str, name: str, keep: str | None, array: Any = None) -> None:
    """Say that the result of a call is an array alone."""
    if keep == "strict":
        likeness = _core._likeness(array)
        source = _core.detect_memory_type(array) if likeness == "array" else "an array"
        raise UnsupportedArrayError(source, _name(data), "keep", why, f"{name}(): the result")
    if keep != "never":
        text = f"{name}(): the result is an array and no {_name(data)}: {why}"
        warnings.warn(text, MetadataDroppedWarning, stacklevel=_outside())


def _outside() -> int:
    """The level of the innermost caller that is not part of this package, as `warn` counts."""
    level = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    # `warn` counts from the function that calls it.
    return level


def _keep(keep: Any) -> str | None:
    try:
        return _KEEP[keep]
    except (KeyError, TypeError):
        raise TypeError(f'keep must be True, False or "strict", not {keep!r}') from None


def _converted(data: Any, target: Any, device: Any, copy: Any, dtype: Any, keep: Any) -> Any:
    """Convert an object, if `keep` or the object asks for more than an array."""
    keep = _keep(keep)
    options = {"device": device, "copy": copy, "dtype": dtype}
    wrapper = _find(type(data))
    if wrapper is None:
        result = _core.convert(data, target, **options)
        if keep in ("always", "strict"):
            if _core._likeness(data) == "array":
                return _with_metadata(data, result, keep)
            _dropped(data, "its class is not registered", "convert", keep, result)
        return result
    if keep in ("always", "strict") and wrapper.apply is not None:
        about = {"name": "convert", "options": {}, "keep": keep, "dtype": "native"}
        return wrapper.apply(data, WrappedCall(_kept, (_PLACE, target, options, keep), {}, about))
    array = _array_in(wrapper, data)
    if keep is not None and _is_registered(type(array)):
        result = _kept(array, target, options, keep)
    else:
        source = data if array is None else array
        result = _core._within(wrapper.name, lambda: _core.convert(source, target, **options))
    if keep is None:
        # Only of an object that means more than its elements is this called without `keep`.
        _dropped(data, "the array has no unit", "convert", keep)
        return result
    return _rewrapped(data, result, "convert", keep)


def _with_metadata(data: Any, result: Any, keep: str) -> Any:
    """A converted array with what the first one carries besides its values, as its table says."""
    source, target = _core.detect_memory_type(data), _core.detect_memory_type(result)
    about = _tables.metadata(source)
    if about is None:
        found = _at_risk(data)
        why = "its table does not say what it carries (`metadata`)"
        if found or keep == "strict":
            listed = f"; these attributes may be lost: {', '.join(found)}" if found else ""
            _dropped(data, why + listed, "convert", keep, data)
    elif about and source != target:
        _dropped(data, f"an array of {target} has no place for it", "convert", keep, data)
    elif about and result is not data:
        module = importlib.import_module(about["module"])
        carried = _core._evaluate(about["read"], module, {"data": data})
        return _core._evaluate(about["give"], module, {"array": result, "value": carried})
    return result


# What says no more of an array than its values, dtype, shape and place do.
_PLAIN = {"dtype", "shape", "ndim", "size", "nbytes", "itemsize", "strides", "device", "T", "base"}


def _at_risk(data: Any) -> list[str]:
    """The public attributes with plain values that an array has besides what all arrays have."""
    from inspect import isdatadescriptor  # takes long to import

    names = {k for cls in type(data).__mro__ for k, v in vars(cls).items() if isdatadescriptor(v)}
    names |= set(getattr(data, "__dict__", {}))
    found = []
    for name in sorted(names - _PLAIN):
        if not name.startswith("_"):
            with contextlib.suppress(Exception):
                value = getattr(data, name)
                if isinstance(value, (str, bytes, int, float, complex, tuple, list, dict)):
                    found.append(name)
    return found


def _kept(data: Any, target: Any, options: dict[str, Any], keep: str) -> Any:
    return _core.convert(data, target, **options, keep=_AS_GIVEN[keep])


def _explained(data: Any, target: Any, device: Any, copy: Any, dtype: Any, keep: Any) -> Any:
    """Explain the conversion of an object that means more than its elements."""
    wrapper, options = _find(type(data)), {"device": device, "copy": copy, "dtype": dtype}
    assert wrapper is not None
    array = _array_in(wrapper, data)
    return _core._within(wrapper.name, lambda: _core.explain(array, target, **options))


register_wrapper.__module__ = WrappedCall.__module__ = "arraybridge"
