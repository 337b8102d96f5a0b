"""The options of declarations: checked, and in the form in which Rust reads them.

What is left to Rust needs its tables: frameworks, dtypes and devices, and whether a flag is one.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__: list[str] = []

_KNOWN = (
    "input_type", "output_type", "input_dtype", "arrays", "lead", "writes", "sliced", "device",
    "gpu_id", "copy", "dtype_conversion", "dtype_config_default", "scaling", "range", "narrow",
    "oom_recovery", "on_oom", "clear_cuda_cache", "split_axis", "join", "host", "contract",
    "differentiable", "slice_by_slice", "slice_by_slice_default", "slice_axes", "tiles", "halo",
    "workers", "pad", "writable", "keep",
)  # fmt: skip
# The options of functions that are written in Rust, and the derivative that `defvjp` sets. No
# decorator takes them.
_PRIVATE = ("opened", "written", "delivers", "shown", "vjp")

_EXCLUSIVE = {
    ("device", "gpu_id"): "device demands a device and gpu_id prefers one; give only one of them",
    ("slice_by_slice", "slice_by_slice_default"): (
        "give only one of slice_by_slice and slice_by_slice_default"
    ),
    ("dtype_conversion", "dtype_config_default"): (
        "give only one of dtype_conversion and dtype_config_default"
    ),
}


def check_names(options: Mapping[str, Any], private: Sequence[str] = ()) -> None:
    """Refuse what is not an option for everyone, nor among the private ones."""
    for name in options:
        if name not in _KNOWN and name not in private:
            raise TypeError(f'unknown option "{name}"; known are {", ".join(_KNOWN)}')


def read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None, checked. Those of tiles become one tuple."""
    check_names(options, _PRIVATE)
    given = {name: value for name, value in options.items() if value is not None}
    for names, text in _EXCLUSIVE.items():
        if all(name in given for name in names):
            raise TypeError(text)
    for name, value in given.items():
        if name in _CHECKS:
            given[name] = _CHECKS[name](name, value)
    if "dtype_config_default" in given:
        given["dtype_conversion"] = given["dtype_config_default"]
    if "join" in given and not given.keys() & {"split_axis", "tiles"}:
        raise ValueError(
            "join says how the parts of a split call are joined; add split_axis or tiles"
        )
    for name in ("halo", "workers", "pad"):
        if name in given and "tiles" not in given:
            raise ValueError(f"{name} is an option of tiles; add tiles")
    if "tiles" in given:
        given["tiles"] = _tiles(given["tiles"], given.get("halo"), given.get("workers", 1))
    return given


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


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("arrays", "writes", "sliced", "opened", "written", "shown"), _parameters),
    "lead": _parameter,
    "host": _function,
    "dtype_config_default": _config,
    "on_oom": _rungs,
    "split_axis": _axis,
    "slice_axes": _axes,
    "pad": _pad,
    "workers": _workers,
}


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
