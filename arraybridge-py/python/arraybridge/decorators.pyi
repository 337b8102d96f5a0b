from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Concatenate, Final, Generic, Literal, Protocol, final, overload

from typing_extensions import ParamSpec, TypeVar

from .types import MemoryType

__all__ = [
    "Declared",
    "Decorator",
    "memory_types",
    # tables
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
    # end of tables
]

_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_S = TypeVar("_S")
_Q = ParamSpec("_Q")

_Name = Literal[
    # tables
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
    # end of tables
]
# A framework: its name, its module or its array class.
_FrameworkName = _Name | MemoryType | ModuleType | type[Any]
_Output = _FrameworkName | Literal["input"]
_Rung = Literal["clear", "split", "host"]
_Join = Literal["concatenate", "sum", "max", "min"] | Callable[[list[Any]], Any]

@final
class Declared(Generic[_P, _R]):
    """The result of a decorator, for type checkers. Call it with arrays of any framework.

    It has the parameters of the original function, so annotate those that take the arrays of
    several frameworks with ``arraybridge.ArrayLike[torch.Tensor]``.

    At run time, a declared Python function is a Python function with these attributes.

    It takes two more keywords than the original function. ``dtype_conversion`` is the dtype of this
    call's result. ``slice_by_slice`` calls the original function with each slice of the first array
    and stacks the results. With ``tiles``, or slice by slice, ``out`` is an array that the results
    are written to part by part.
    """

    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str
    input_memory_type: str
    output_memory_type: str
    execution_memory_type: str
    contract: Any
    __processing_contract__: Any
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __call__(
        self, *args: Any, slice_by_slice: bool, dtype_conversion: Any = None, **kwargs: Any
    ) -> Any: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> Any: ...
    @overload
    def __call__(self, *args: Any, dtype_conversion: Any, **kwargs: Any) -> Any: ...
    def defvjp(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        *,
        result: Callable[..., Any] | None = None,
    ) -> None: ...
    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Declared[_P, _R]: ...
    @overload
    def __get__(
        self: Declared[Concatenate[_S, _Q], _R], instance: _S, owner: Any = None, /
    ) -> Declared[_Q, _R]: ...
    @overload
    def __get__(self, instance: Any, owner: Any = None, /) -> Declared[..., _R]: ...
    def __reduce__(self) -> Any: ...

@final
class Decorator:
    """A decorator for functions that work on one framework's arrays.

    Use it as ``@torch``, ``@torch(..)`` or ``torch(function)``. Options:

    ``input_type``: the framework that callers usually bring, which ``input_memory_type`` reports.
    The function always receives arrays of the decorator's framework.
    ``output_type``: the framework of the results.
    ``output_type="input"`` stands for the framework of the first array argument.
    ``input_dtype``: the dtype that arguments are cast to.
    ``arrays``: the parameters that are converted. ``lead``: the parameter whose array gives the
    result its dtype, and is sliced and split. By default it is the first array that can be an
    image; arrays in containers come after the others. ``writes``: the parameters that the function
    writes to. What it writes to a copy is written back, and an array that nobody can write to is
    refused before the call. For PyTorch, which counts writes, this needs no declaration.
    ``sliced``: the parameters that are sliced and split together with the lead. One value for each
    slice, also from a list of numbers, is an array without axes.
    ``device``: "host", "cuda:1" or an index. ``gpu_id``: the accelerator to prefer; if the machine
    has none, the arrays stay on the host. ``copy``: True copies every argument, False shares memory
    or raises.
    ``dtype_conversion``, ``scaling``, ``range``: the dtype of results, as in ``dtype_policy``.
    ``narrow="error"``: raise if the framework lacks the dtype of an argument, instead of converting
    it to the nearest dtype with a warning.
    ``oom_recovery=False``: do not retry when memory runs out. ``on_oom``: the attempts, in order.
    ``clear_cuda_cache=True``: retry with all caches cleared, whatever the values of these two.
    ``split_axis``: the axis along which the first array may be split. ``join``: the way to combine
    the results of the parts. ``host``: the function to call on the host.
    ``contract``: a check of the result. If it returns False, ``ValueError`` is raised.
    ``slice_by_slice=True``: call the function with each 2-D slice of the first array, along all
    axes before the last two. ``slice_axes=("y", "x")`` or ``(-3, -2)``: the axes of a slice.
    ``slice_by_slice_default`` and ``dtype_config_default``: the original package's names of
    ``slice_by_slice`` and, for an object with ``default_dtype_conversion``, ``dtype_conversion``.
    ``tiles=(512, 512)``: call the function with each tile of the last axes of the first array, and
    put the results together. ``None`` leaves an axis whole, and ``"chunks"`` follows the chunks or
    shards of ``out`` or of the first array. ``halo``: the number of extra elements on each side of
    a tile. ``pad``: how all tiles get one shape: "reflect", "edge" or "constant". ``workers``: the
    number of threads that work on tiles.
    ``writable=True``: copy results of JAX and TensorFlow, so that NumPy can write to them.
    ``keep``: what becomes of the object that the lead is in, such as an ``xarray.DataArray``, if
    ``output_type="input"``. By default the result is in one like it, unless the function would have
    to keep a unit, or be called for each block of a dask array: True says that it may. "strict"
    says so too, and makes what cannot be kept an error. False returns the array.

    Raises ``TypeError`` or ``ValueError`` for unknown options and values.

    >>> import numpy, arraybridge
    >>> @arraybridge.numpy(output_type="input")
    ... def brighter(image, by=1):
    ...     return image + by
    >>> brighter(numpy.zeros(2, dtype="uint8"), by=3)
    array([3, 3], dtype=uint8)
    """

    __name__: str
    __qualname__: str
    def __init__(
        self, framework: _FrameworkName, options: Mapping[str, Any] | None = None
    ) -> None: ...
    @overload
    def __call__(
        self, function: Callable[_P, Any], /, *, output_type: _Output, **options: Any
    ) -> Declared[_P, Any]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /, **options: Any) -> Declared[_P, _R]: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        input_type: _FrameworkName | None = None,
        output_type: _Output | None = None,
        input_dtype: Any = None,
        arrays: str | Iterable[str] | None = None,
        lead: str | None = None,
        writes: str | Iterable[str] | None = None,
        sliced: str | Iterable[str] | None = None,
        device: Any = None,
        gpu_id: int | None = None,
        copy: bool | None = None,
        dtype_conversion: Any = None,
        dtype_config_default: Any = None,
        scaling: Literal["clamp", "unit", "stretch"] | None = None,
        range: tuple[int, int] | None = None,
        narrow: Literal["warn", "error"] | None = None,
        oom_recovery: bool | None = None,
        on_oom: _Rung | Iterable[_Rung] | None = None,
        clear_cuda_cache: bool | None = None,
        split_axis: int | None = None,
        join: _Join | tuple[_Join, ...] | None = None,
        host: Callable[..., Any] | None = None,
        contract: Any = None,
        differentiable: bool | None = None,
        slice_by_slice: bool | None = None,
        slice_by_slice_default: bool | None = None,
        slice_axes: Sequence[int | str] | None = None,
        tiles: Sequence[int | None] | Literal["chunks"] | None = None,
        halo: int | Sequence[int] | None = None,
        workers: int | None = None,
        pad: Literal["reflect", "edge", "constant"] | None = None,
        writable: bool | None = None,
        keep: bool | Literal["strict"] | None = None,
    ) -> _Options: ...
    def __reduce__(self) -> Any: ...

# A decorator with options, which may change what the function returns.
class _Options(Protocol):
    def __call__(self, function: Callable[_P, Any], /) -> Declared[_P, Any]: ...

def memory_types(
    input_type: _FrameworkName,
    output_type: _Output,
    contract: Any = None,
    **options: Any,
) -> _Options:
    """Declare which frameworks a function takes and returns.

    Parameters
    ----------
    input_type, output_type : str or MemoryType
        The framework that array arguments are converted to, and the framework of the results. The
        output type "input" stands for the framework of the first array argument.
    contract : callable, optional
        A check that is called with the result. If it returns False, a ValueError is raised.
    **options
        Options of the decorators, such as `arraybridge.torch`.

    Returns
    -------
    Decorator
        A decorator for the function.

    Raises
    ------
    TypeError, ValueError
        If a framework or an option is unknown.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> @arraybridge.memory_types("numpy", "input")
    ... def doubled(image):
    ...     return image * 2
    >>> doubled(numpy.ones(2))
    array([2., 2.])
    """

# tables
numpy: Final[Decorator]
cupy: Final[Decorator]
torch: Final[Decorator]
tensorflow: Final[Decorator]
jax: Final[Decorator]
pyclesperanto: Final[Decorator]
# end of tables
