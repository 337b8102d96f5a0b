"""The options of declarations: the list of them, and their checks.

The decorators' docstrings are written from the list. Rust gets the options in the form in which it
reads them. What is left to it needs its tables: frameworks, dtypes and devices, and whether a flag
is one.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__: list[str] = []


class Option(NamedTuple):
    """An option of declarations. One without a text is described together with the next one."""

    name: str
    kind: str = ""
    text: str = ""
    check: Callable[[str, Any], Any] | None = None
    """Returns a value in the form for Rust, or raises an error; it gets the name and the value."""
    needs: tuple[str, ...] = ()
    """Other options, one of which has to be given too."""
    not_with: str | None = None
    """An option that cannot be given too."""
    why: str = ""
    """The reason for that."""
    takes_gradients: bool = True
    """Whether it goes with a gradient of another framework."""
    has_effect: bool = True
    """Whether it changes anything about tensors that fit, while memory suffices."""


def _are_names(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(name, str) for name in value)


def _parameter(option: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{option} must be the name of a parameter")
    return value


def _parameters(option: str, value: Any) -> list[str]:
    if not _are_names(value):
        raise TypeError(f"{option} must be the name of a parameter or a sequence of names")
    return [value] if isinstance(value, str) else list(value)


def _function(option: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{option} must be a function, not {type(value).__name__}")
    return value


def _config(option: str, value: Any) -> Any:
    if not hasattr(value, "default_dtype_conversion"):
        raise TypeError(
            f"{option} must be a DtypeConversionConfig, which has the attribute "
            f"default_dtype_conversion, not {type(value)}; dtype_conversion takes the dtype itself"
        )
    return value


def _rungs(option: str, value: Any) -> list[str]:
    if not _are_names(value):
        raise TypeError(f"{option} must be a name or a sequence of names")
    known = ("clear", "split", "host")
    names = [value] if isinstance(value, str) else list(value)
    for name in names:
        if name not in known:
            raise ValueError(f'unknown rung "{name}" in {option}; known are {", ".join(known)}')
    return names


def _index(value: Any) -> int | None:
    """Return an int, or None for a bool and anything else that is not an index of an axis."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    index = operator.index(value)
    return index if abs(index) <= sys.maxsize else None


def _axis(option: str, value: Any) -> int:
    index = _index(value)
    if index is None:
        raise TypeError(f"{option} must be an int, not {type(value).__name__}")
    return index


def _axes(option: str, value: Any) -> list[int | str]:
    given = value if isinstance(value, (tuple, list)) else ()
    axes = [axis if isinstance(axis, str) else _index(axis) for axis in given]
    found = [axis for axis in axes if axis is not None]
    if not found or len(found) < len(axes):
        raise TypeError(
            f"{option} must be a tuple with the axes of a slice, by index or by name, such as "
            '(-2, -1) or ("y", "x")'
        )
    return found


def _pad(_: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("reflect", "edge", "constant"):
        raise ValueError(f'unknown pad {value!r}; use "reflect", "edge" or "constant"')
    return value


def _workers(option: str, value: Any) -> int:
    return _whole(option, value, 1)


def _whole(option: str, value: Any, least: int) -> int:
    """Return a whole number. What is longer than any axis stands for the whole axis."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{option} must be whole numbers, not {type(value).__name__}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{option} must be a whole number of at least {least}, not {value}")
    return min(number, sys.maxsize)


def _tiles(tiles: Any, halo: Any, workers: int) -> tuple[list[int | None], list[int], int, bool]:
    """Return the lengths of a tile, its halos, the workers, and whether one halo is for all axes.

    Tiles that follow the chunks of the arrays have no lengths.
    """
    by_chunks = isinstance(tiles, str) and tiles == "chunks"
    lengths = [] if by_chunks else _lengths(tiles)
    if halo is None:
        return lengths, [0] * len(lengths), workers, False
    if not isinstance(halo, (tuple, list)):
        number = _whole("halo", halo, 0)
        halos = [number] if by_chunks else [number if length else 0 for length in lengths]
        return lengths, halos, workers, True
    if not by_chunks and len(halo) != len(lengths):
        raise ValueError(f"halo has {len(halo)} elements and tiles has {len(lengths)}")
    halos = [_whole("halo", number, 0) for number in halo]
    if any(number and not length for number, length in zip(halos, lengths, strict=False)):
        raise ValueError("halo must be 0 for an axis that is not cut")
    return lengths, halos, workers, False


def _lengths(tiles: Any) -> list[int | None]:
    wrong = (
        "tiles must be a tuple with the length of a tile for each of the last axes, or None for "
        'an axis that is not cut, such as (512, 512), or "chunks"'
    )
    if not isinstance(tiles, (tuple, list)):
        raise TypeError(wrong)
    lengths = [None if length is None else _whole("tiles", length, 1) for length in tiles]
    if all(length is None for length in lengths):
        raise ValueError(wrong)
    return lengths


# fmt: off
OPTIONS = (
    Option("input_type", takes_gradients=False, has_effect=False),
    Option("output_type", "str or MemoryType", """
        The framework that callers usually bring, which `input_memory_type` reports, and the
        framework of the results. The function always receives arrays of the decorator's framework.
        The output type "input" stands for the framework of the first array argument.
    """),
    Option("input_dtype", "str or dtype", """
        The dtype that arguments are cast to. What does not fit is clamped, and on the host a
        ClippedValuesWarning counts it.
    """, takes_gradients=False),
    Option("arrays", "str or sequence of str", """
        The parameters whose arrays are converted. By default, all of them.
    """, check=_parameters, takes_gradients=False),
    Option("lead", "str", """
        The parameter whose array gives the result its dtype, and is sliced and split. By default it
        is the first array that can be an image; arrays in containers come after the others.
    """, check=_parameter),
    Option("writes", "str or sequence of str", """
        The parameters that the function writes to. What it writes to a copy is written back, and an
        array that nobody can write to is refused before the call. For PyTorch, which counts writes,
        this needs no declaration. `()` declares that it writes to none.
    """, check=_parameters, takes_gradients=False),
    Option("sliced", "str or sequence of str", """
        The parameters that are sliced and split together with the first array. One with a value for
        each slice, also a list of numbers, reaches the function as an array without axes.
    """, check=_parameters),
    Option("device", "str or int", """
        As in `convert`. By default, the device of the first array that belongs to the framework,
        else the framework's current accelerator, else the host. A program that `jax.jit` compiles
        runs where its arguments are.
    """, takes_gradients=False),
    Option("gpu_id", "int", """
        The index of the accelerator to prefer. If the framework finds no accelerator on this
        machine, its arrays stay on the host, with a NoAcceleratorWarning.
    """, not_with="device",
        why="device demands a device and gpu_id prefers one", takes_gradients=False),
    Option("copy", "bool", """
        True gives the function memory of its own. False shares memory or raises CopyRequiredError.
    """),
    Option("dtype_conversion"),
    Option("scaling"),
    Option("range", "", """
        The dtype of results, how floats become integers, and which integers, as in `dtype_policy`.
    """),
    Option("narrow", "str", """
        What becomes of an array whose dtype the framework lacks: "warn" converts it to the nearest
        dtype, with a NarrowedDtypeWarning; "error" raises UnsupportedDtypeError.
    """, has_effect=False),
    Option("oom_recovery", "bool", """
        False disables retries when memory runs out.
    """, has_effect=False),
    Option("on_oom", "str or sequence of str", """
        How to retry when memory runs out, in order: "clear", "split", "host". "clear" is tried a
        second time after a short wait; functions declared for NumPy are split before that.
    """, check=_rungs, has_effect=False),
    Option("clear_cuda_cache", "bool", """
        True retries with all caches cleared, whatever the two options above say.
    """, has_effect=False),
    Option("split_axis", "int", """
        The axis along which the first array may be split; a negative one counts from the last. Its
        parts are halved until they fit. Those of a large array are a 16th of it at first, but not
        of fewer than 8 Mi elements. The next calls like this one with an array that is at least as
        long begin with parts of the length that fitted. Every 32nd of them tries the whole first.
    """, check=_axis, has_effect=False),
    Option("join", "str, callable or tuple", """
        How the results of the parts become one: "concatenate", "sum", "max", "min", or a function
        of the list of results; for a tuple, a tuple of these. By default, only arrays that are as
        long as their part are joined: they are concatenated.
    """, needs=("split_axis", "tiles"),
        why="join says how the parts of a split call are joined", has_effect=False),
    Option("host", "callable", """
        The function to call instead on the host.
    """, check=_function, has_effect=False),
    Option("contract", "callable", """
        A test of the result. If it returns False, the call raises ValueError.
    """, takes_gradients=False),
    Option("differentiable", "bool", """
        True lets gradients of PyTorch, JAX and TensorFlow flow through a function of another one of
        them. Results are then those of the caller's framework, with the dtype that the function
        gives them.
    """, has_effect=False),
    Option("slice_by_slice", "bool", """
        True calls the function for each 2-D slice of the first array, along all axes before the
        last two, unless a call says otherwise.
    """, takes_gradients=False),
    Option("slice_by_slice_default", not_with="slice_by_slice"),
    Option("dtype_config_default", "bool and object", """
        The original package's names of slice_by_slice and, for an object with the attribute
        default_dtype_conversion, of dtype_conversion.
    """, check=_config, not_with="dtype_conversion"),
    Option("slice_axes", "tuple of int or str", """
        The axes of a slice, by index or by the name that the array has for them: (0, 1) for images
        with their channels last, ("y", "x") for an `xarray.DataArray`. A slice has them in the
        order of the array. Results with as many axes are stacked along the axes of the array,
        others along first axes.
    """, check=_axes),
    Option("tiles", 'tuple of int or None, or "chunks"', """
        The lengths of a tile along the last axes of the first array, as (512, 512); None leaves an
        axis whole. "chunks" takes the lengths of the chunks, or shards, of `out`, or of the first
        array. The function is called for each tile, and the results are put together: arrays that
        are as long as their tile along these axes by their places, anything else as `join` says.
    """, takes_gradients=False),
    Option("halo", "int or tuple of int", """
        How many more elements a tile has on each side, where the array has them. They are cut off
        the result. With tiles="chunks", a tuple is for the last axes. A tile with a halo is a copy,
        so `writes` for an array that is cut is an error.
    """, needs=("tiles",), takes_gradients=False),
    Option("pad", '{"reflect", "edge", "constant"}', """
        How tiles are padded beyond the ends of the array, so that all have one shape, and a
        function that is compiled for a shape is compiled once. "constant" pads with zeros.
    """, check=_pad, needs=("tiles",)),
    Option("workers", "int", """
        The number of threads that work on tiles. It helps where the function releases the GIL, as
        most of NumPy and torch does. Settings of a thread, such as `torch.no_grad()` or
        `jax.enable_x64()`, do not hold in workers. Arrays on an accelerator, traced arrays, and
        those of TensorFlow while a gradient tape watches the caller's thread, are worked on by that
        thread alone.
    """, check=_workers, needs=("tiles",), takes_gradients=False),
    Option("writable", "bool", """
        True copies results that come from immutable arrays, such as those of JAX and TensorFlow, so
        that they can be written to. By default NumPy shares their memory and gets a read-only
        array.
    """, takes_gradients=False),
    Option("keep", 'bool or "strict"', """
        What becomes of the object that the lead is in, such as an `xarray.DataArray`, where the
        output type is "input" (see `register_wrapper`). By default the result is in an object like
        it, unless the function would have to keep a unit, or be called for each block of a dask
        array. True says that it keeps the unit and may be called for each block. "strict" says so
        too, and makes what cannot be kept an error instead of a MetadataDroppedWarning. False
        returns the array.
    """),
)
# fmt: on
_KNOWN = tuple(option.name for option in OPTIONS)
# The options of functions that are written in Rust, and the derivative that `defvjp` sets. No
# decorator takes them.
_PRIVATE = ("opened", "written", "delivers", "shown", "vjp")
_CHECKS = {
    **dict.fromkeys(("opened", "written", "shown"), _parameters),
    **{option.name: option.check for option in OPTIONS if option.check is not None},
}


def documented() -> str:
    """Return the part of a decorator's docstring that describes the options."""
    text, names = "", []
    for option in OPTIONS:
        names.append(option.name)
        if option.text:
            kind = f"{option.kind}, optional" if option.kind else "optional"
            lines = [line.strip() for line in option.text.strip().splitlines()]
            text += "\n    ".join([f"{', '.join(names)} : {kind}", *lines]) + "\n"
            names = []
    return text


def signature() -> Any:
    """Return the signature of a decorator, in which editors and notebooks find the options."""
    from inspect import Parameter, Signature

    function = Parameter("function", Parameter.POSITIONAL_ONLY, default=None)
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _KNOWN]
    return Signature([function, *options])


def check_names(options: Mapping[str, Any], private: Sequence[str] = ()) -> None:
    """Refuse what is not an option for everyone, nor among the private ones."""
    for name in options:
        if name not in _KNOWN and name not in private:
            from difflib import get_close_matches

            near = get_close_matches(name, _KNOWN, 1)
            way = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(_KNOWN)}"
            raise TypeError(f'unknown option "{name}"; {way}')


def read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None, checked. Those of tiles become one tuple."""
    check_names(options, _PRIVATE)
    given = {name: value for name, value in options.items() if value is not None}
    for option in OPTIONS:
        if option.name in given and option.not_with in given:
            why = f"{option.why}; " if option.why else ""
            raise TypeError(f"{why}give only one of {option.not_with} and {option.name}")
    for name, value in given.items():
        if name in _CHECKS:
            given[name] = _CHECKS[name](name, value)
    if "dtype_config_default" in given:
        given["dtype_conversion"] = given["dtype_config_default"]
    for option in OPTIONS:
        if option.name in given and option.needs and not given.keys() & {*option.needs}:
            ways = " or ".join(option.needs)
            raise ValueError(f"{option.why or f'{option.name} is an option of {ways}'}; add {ways}")
    if "tiles" in given:
        given["tiles"] = _tiles(given["tiles"], given.get("halo"), given.get("workers", 1))
    return given
