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
        dtype_config_default: Any = None,
        slice_axes: Sequence[int | str] | None = None,
        tiles: Sequence[int | None] | Literal["chunks"] | None = None,
        halo: int | Sequence[int] | None = None,
        pad: Literal["reflect", "edge", "constant"] | None = None,
        workers: int | None = None,
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
) -> _Options: ...

# tables
numpy: Final[Decorator]
cupy: Final[Decorator]
torch: Final[Decorator]
tensorflow: Final[Decorator]
jax: Final[Decorator]
pyclesperanto: Final[Decorator]
# end of tables
