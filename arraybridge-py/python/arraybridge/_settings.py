"""The defaults of the process, below those of blocks, declarations and calls."""

from __future__ import annotations

import os
from typing import Any, Literal

from . import _core  # type: ignore[attr-defined]

__all__ = ["configure"]

_COPIES = {"auto": None, "true": True, "1": True, "false": False, "0": False}
_NAMES = ("dtype_conversion", "scaling", "narrow", "copy")


def configure(
    *,
    dtype_conversion: Any = None,
    scaling: Literal["clamp", "unit", "stretch"] | None = None,
    narrow: Literal["warn", "error"] | None = None,
    copy: Literal["auto"] | bool | None = None,
) -> dict[str, Any]:
    """Set the defaults of the whole process, and return those before as a dict.

    Threads and the workers of thread pools see them, unlike a `dtype_policy` block. A block, a
    declaration and a call go before them. An argument that is left out changes nothing, so that
    `configure()` returns what is set, and `configure(**before)` restores it.

    Parameters
    ----------
    dtype_conversion, scaling, narrow : optional
        As in `dtype_policy`.
    copy : {"auto", True, False}, optional
        The argument `copy` of conversions that have none of their own: "auto" shares memory where
        it can, True always copies, and False shares or raises, as in a `no_copy` block.

    Returns
    -------
    dict
        The four settings as they were before.

    Raises
    ------
    ValueError
        If a name is unknown. Nothing is set then.

    Notes
    -----
    When the package is imported, the defaults are read from ARRAYBRIDGE_DTYPE_CONVERSION,
    ARRAYBRIDGE_SCALING, ARRAYBRIDGE_NARROW and ARRAYBRIDGE_COPY. Processes that a pool starts read
    them too; other settings reach them by the initializer of the pool.

    Examples
    --------
    >>> import arraybridge
    >>> before = arraybridge.configure(dtype_conversion="native")
    >>> arraybridge.configure(**before)["dtype_conversion"]
    'native'
    """
    # None stands for a setting that stays.
    wanted = None if copy is None else (_copy_named(copy),)
    *names, copies = _core._configure(dtype_conversion, scaling, narrow, wanted)
    return dict(zip(_NAMES, (*names, "auto" if copies is None else copies), strict=True))


def _copy_named(copy: Any) -> bool | None:
    if isinstance(copy, bool):
        return copy
    name = copy.lower() if isinstance(copy, str) else None
    if name not in _COPIES:
        raise ValueError(f'unknown copy {copy!r}; use "auto", True or False')
    return _COPIES[name]


def _read_environment() -> None:
    for name in _NAMES:
        variable = f"ARRAYBRIDGE_{name.upper()}"
        if value := os.environ.get(variable):
            try:
                configure(**{name: value})  # type: ignore[arg-type]
            except ValueError as error:
                raise ValueError(f"the environment variable {variable}: {error}") from None


_read_environment()
