"""The ``with`` blocks that set a value of their context: of a thread, or of an asyncio task.

Rust reads the context variables, and counts the blocks, so that a call looks for them only where
there are some.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, final

from . import _core  # type: ignore[attr-defined]

if TYPE_CHECKING:

    class _Bar(Protocol):
        def update(self, n: int, /) -> object: ...
        def close(self) -> object: ...


__all__ = ["dtype_policy", "no_copy", "progress"]

# What makes the bars.
_BARS: ContextVar[Callable[..., Any] | None] = ContextVar("arraybridge.progress", default=None)


class Block:
    """Sets a context variable. It is entered once at a time."""

    __slots__ = ("_opened",)
    # Has one entry while the block is open. `setdefault` and `pop` are atomic, also without a GIL.
    _opened: dict[str, Any]

    _variable: ClassVar[ContextVar[Any]]

    def __init__(self) -> None:
        self._opened = {}

    def _open(self, value: Any) -> None:
        token: Token[Any] = self._variable.set(value)
        if self._opened.setdefault("with", token) is not token:
            self._variable.reset(token)
            self._refuse(self._variable.name)

    def __exit__(self, *_exception: object) -> None:
        token = self._opened.pop("with", None)
        if token is not None:
            self._closed()
            self._variable.reset(token)

    def _closed(self) -> None:
        """Count the block as closed, also if its variable cannot be reset in this context."""

    def _refuse(self, name: str) -> None:
        raise RuntimeError(f"this block is already open; make another one with {name}()")


@final
class no_copy(Block):  # noqa: N801
    """Make conversions without a `copy` argument share memory or raise: `with no_copy():`.

    The conversion raises `CopyRequiredError` with the reason. That is so for `convert`, and for the
    arguments and the results of declared functions, `input_dtype` included. Stacking, joining
    parts, tiles with a halo, the dtype policy of a result, and what NumPy copies to see a data
    frame as an array are not conversions, and still copy. Entering one object twice raises
    `RuntimeError`.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> with arraybridge.no_copy():
    ...     zeros = arraybridge.convert(numpy.zeros(3), "numpy")
    """

    __slots__ = ()
    _variable = _core._NO_COPY

    def __enter__(self) -> None:
        self._open(True)
        _core._count_blocks(0, 1)

    def _closed(self) -> None:
        _core._count_blocks(0, -1)


@final
class dtype_policy(Block):  # noqa: N801
    """Set the default dtype policy of declared functions: `with dtype_policy(scaling="unit"):`.

    `dtype_conversion` is a `DtypeConversion`, "default", "preserve", "native" or a dtype. "default"
    gives floats the dtype of an image that they were computed from, unless rounding would destroy
    them or cut a gradient; "preserve" gives every result the dtype of the first array, and "native"
    that which the function returned. `scaling` is
    "clamp" (round half to even, saturate, NaN to 0), "unit" (results are in [0, 1] or [-1, 1]) or
    "stretch" (minimum to maximum), and `range=(0, 4095)` are the integers that these two scale to:
    0 or the minimum becomes the first one, 1 or the maximum the second. By default they are all
    integers of the dtype. `narrow` is what becomes of arguments whose dtype the framework
    lacks: "warn" converts them to the nearest dtype that it has, with a NarrowedDtypeWarning, and
    "error" raises UnsupportedDtypeError; it also applies to `convert_memory`. An argument that is
    left out keeps the value that it has outside of the block. The arguments of a decorator or a
    call take precedence over the default. The block affects its own context only: its thread, or
    its asyncio task. Blocks of one context have to end in reverse order, as those of `decimal` do:
    of two generators that are advanced in turns, each inside a block, one leaves its policy behind.

    Raises `ValueError` for an unknown name, and `RuntimeError` when one object is entered twice.

    >>> import arraybridge
    >>> with arraybridge.dtype_policy(dtype_conversion="native"):
    ...     pass  # declared functions keep the dtype that they return
    """

    __slots__ = ("_given",)
    _variable = _core._dtype_policy

    def __init__(
        self,
        dtype_conversion: Any = None,
        scaling: Literal["clamp", "unit", "stretch"] | None = None,
        narrow: Literal["warn", "error"] | None = None,
        *,
        range: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self._given = (dtype_conversion, scaling, narrow, range)
        _core._policy(*self._given, False)

    def __enter__(self) -> None:
        self._open(_core._policy(*self._given, True))


@final
class progress(Block):  # noqa: N801
    """Show how far calls in many steps are: `with progress():`.

    Steps are the slices of `slice_by_slice` and `process_slices`, the tiles of `tiles`, the arrays
    of a tree of more than 1,000, and the elements of a call that is split because memory ran out.
    Nothing is shown outside of such a block. A bar of tiles that has `set_postfix_str`, as tqdm's
    has, also shows the bytes of the first array that are done, how many a second, and how long the
    others take.

    Parameters
    ----------
    bar : callable, optional
        What makes a bar: `tqdm.tqdm`, or another callable that takes its keywords `desc`, `total`
        and `unit` and whose results have `update(n)` and `close()`. By default tqdm if it is
        installed, else one line on a terminal.

    Raises
    ------
    TypeError
        If `bar` cannot be called.
    RuntimeError
        If one object is entered twice.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> class Count:
    ...     def __init__(self, desc, total, unit):
    ...         print(desc, total, unit)
    ...     def update(self, n):
    ...         print("one more")
    ...     def close(self):
    ...         print("done")
    >>> @arraybridge.numpy(slice_by_slice=True)
    ... def brighter(image):
    ...     return image + 1
    >>> with arraybridge.progress(Count):
    ...     brighter(numpy.zeros((2, 3, 3))).shape
    brighter 2 slice
    one more
    one more
    done
    (2, 3, 3)
    """

    __slots__ = ("_bar",)
    _variable = _BARS

    def __init__(self, bar: Callable[..., _Bar] | None = None) -> None:
        if bar is not None and not callable(bar):
            text = f"bar must be a class or a function like tqdm.tqdm, not {type(bar).__name__}"
            raise TypeError(text)
        super().__init__()
        self._bar = bar

    def __enter__(self) -> None:
        make: Any = self._bar
        if make is None:
            from ._tools.progress import bar as make
        self._open(make)


for _each in (no_copy, dtype_policy, progress):
    _each.__module__ = "arraybridge"
