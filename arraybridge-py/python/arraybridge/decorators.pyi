from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, final, overload

__all__ = [
    "Declared",
    "Decorator",
    "memory_types",
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
]

_Rung = Literal["clear", "split", "host"]

@final
class Declared:
    """A function that is called with arrays of any framework and gets those it is declared for.

    It is called as the function is, with two more keywords: ``dtype_conversion``, the element type
    of this call's result, and ``slice_by_slice``, which calls the function for each slice of the
    first array and stacks the results.
    """

    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str
    input_memory_type: str
    output_memory_type: str
    execution_memory_type: str
    contract: Any
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: Any = None, /) -> Any: ...
    def __reduce__(self) -> Any: ...

@final
class Decorator:
    """A decorator for functions that work on one framework's arrays.

    ``@torch``, ``@torch(..)`` and ``torch(function)`` all serve. Options:

    ``input_type``, ``output_type``: the frameworks of the arguments and of the results;
    ``output_type="input"`` gives back the framework of the first array argument.
    ``input_dtype``: what arguments are cast to. ``arrays``: the parameters that are converted.
    ``sliced``: those that are sliced and split together with the first array.
    ``device``: "host", "cuda:1" or an index. ``copy``: True for arguments of the function's own,
    False to share memory or raise.
    ``dtype_conversion``, ``scaling``: the element type of results, as in ``dtype_policy``.
    ``oom_recovery=False`` raises at once when memory runs out. ``on_oom`` names the ways to try
    again, in order. ``split_axis``: the axis along which the first array may be split. ``host``:
    the function that takes over on the host.
    ``contract``: a function of the result; ``ValueError`` where it returns False.
    ``slice_by_slice=True`` calls the function for each 2-D slice of the first array.

    Raises ``TypeError`` and ``ValueError`` for options that are none.

    >>> import numpy, arraybridge
    >>> @arraybridge.numpy(output_type="input")
    ... def brighter(image, by=1):
    ...     return image + by
    >>> brighter(numpy.zeros(2, dtype="uint8"), by=3)
    array([3, 3], dtype=uint8)
    """

    __name__: str
    __qualname__: str
    @overload
    def __call__(self, function: Callable[..., Any], /, **options: Any) -> Declared: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        input_type: str | None = None,
        output_type: str | None = None,
        input_dtype: Any = None,
        arrays: str | Iterable[str] | None = None,
        sliced: str | Iterable[str] | None = None,
        device: str | int | None = None,
        copy: bool | None = None,
        dtype_conversion: Any = None,
        scaling: Literal["clamp", "unit", "stretch"] | None = None,
        oom_recovery: bool | None = None,
        on_oom: _Rung | Iterable[_Rung] | None = None,
        split_axis: int | None = None,
        host: Callable[..., Any] | None = None,
        contract: Any = None,
        slice_by_slice: bool | None = None,
    ) -> Decorator: ...
    def __reduce__(self) -> Any: ...

def memory_types(
    input_type: str, output_type: str, contract: Any = None, **options: Any
) -> Decorator:
    """Declare the framework of a function's arguments and that of its results.

    ``contract`` and ``options`` are those of the decorators.

    >>> import numpy, arraybridge
    >>> double = arraybridge.memory_types("numpy", "numpy")(lambda image: image * 2)
    >>> double(numpy.ones(2))
    array([2., 2.])
    """

numpy: Final[Decorator]
cupy: Final[Decorator]
torch: Final[Decorator]
tensorflow: Final[Decorator]
jax: Final[Decorator]
pyclesperanto: Final[Decorator]
