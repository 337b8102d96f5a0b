from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Concatenate, Final, Generic, Literal, Protocol, TypedDict, final, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from .dtype_scaling import DtypeConversion
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

# fmt: off
# Where a framework is not installed, or needs a GPU, its arrays are Any.
# tables
from numpy import ndarray as _numpy  # type: ignore
_cupy = Any
from torch import Tensor as _torch  # type: ignore
_tensorflow = Any
from jax import Array as _jax  # type: ignore
_pyclesperanto = Any
# end of tables
# fmt: on

_P = ParamSpec("_P", default=...)
_R = TypeVar("_R", default=Any)
_R_co = TypeVar("_R_co", covariant=True)
_A = TypeVar("_A")
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

    It takes two more keywords than its signature shows. ``dtype_conversion`` is the dtype of this
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

# What the arrays of all frameworks have, and numbers and tuples have not.
class _Array(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...

# For type checkers alone, which is why they may extend a final class.
# The results are arrays of a framework, or like the first argument, where those of the original
# function, of type `_R_co`, are arrays.
class _Converting(Declared[_P, Any], Generic[_R_co, _A, _P]):  # type: ignore[misc]
    @overload
    def __call__(self: _Converting[_Array, _A, _P], *args: _P.args, **kwargs: _P.kwargs) -> _A: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    @overload
    def __call__(
        self, *args: Any, slice_by_slice: bool, dtype_conversion: Any = None, **kwargs: Any
    ) -> Any: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> Any: ...
    @overload
    def __call__(self, *args: Any, dtype_conversion: Any, **kwargs: Any) -> Any: ...

class _LikeInput(Declared[_P, Any], Generic[_R_co, _P]):  # type: ignore[misc]
    @overload
    def __call__(
        self: _LikeInput[_Array, Concatenate[Any, _Q]],
        data: _S,
        /,
        *args: _Q.args,
        **kwargs: _Q.kwargs,
    ) -> _S: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    @overload
    def __call__(
        self, *args: Any, slice_by_slice: bool, dtype_conversion: Any = None, **kwargs: Any
    ) -> Any: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> Any: ...
    @overload
    def __call__(self, *args: Any, dtype_conversion: Any, **kwargs: Any) -> Any: ...

# The dtypes of frameworks are objects, and `Any` would take a misspelt name.
class _DtypeObject(Protocol):
    @property
    def itemsize(self) -> int: ...

class _TensorFlowDtype(Protocol):
    @property
    def as_numpy_dtype(self) -> Any: ...

class _Config(Protocol):
    @property
    def default_dtype_conversion(self) -> Any: ...

_Conversion = (
    Literal[
        "default",
        "preserve",
        "native",
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ]  # fmt: skip
    | DtypeConversion
    | type[Any]
    | _DtypeObject
    | _TensorFlowDtype
    | _Config
)

# The options of declarations but those of `memory_types`.
class _Settings(TypedDict, total=False):
    input_dtype: Any
    arrays: str | Iterable[str] | None
    lead: str | None
    writes: str | Iterable[str] | None
    sliced: str | Iterable[str] | None
    device: Any
    gpu_id: int | None
    copy: bool | None
    dtype_conversion: _Conversion | None
    scaling: Literal["clamp", "unit", "stretch"] | None
    range: tuple[int, int] | None
    narrow: Literal["warn", "error"] | None
    oom_recovery: bool | None
    on_oom: _Rung | Iterable[_Rung] | None
    clear_cuda_cache: bool | None
    split_axis: int | None
    join: _Join | tuple[_Join, ...] | None
    host: Callable[..., Any] | None
    differentiable: bool | None
    slice_by_slice: bool | None
    slice_by_slice_default: bool | None
    dtype_config_default: Any
    slice_axes: Sequence[int | str] | None
    tiles: Sequence[int | None] | Literal["chunks"] | None
    halo: int | Sequence[int] | None
    pad: Literal["reflect", "edge", "constant"] | None
    workers: int | None
    writable: bool | None
    keep: bool | Literal["strict"] | None

class _Options(_Settings, total=False):
    input_type: _FrameworkName | None
    contract: Any

@final
class Decorator:
    __name__: str
    __qualname__: str
    def __init__(
        self, framework: _FrameworkName, options: Mapping[str, Any] | None = None
    ) -> None: ...
    @overload
    def __call__(
        self, function: Callable[_P, Any], /, *, output_type: _Output, **options: Unpack[_Settings]
    ) -> Declared[_P, Any]: ...
    @overload
    def __call__(
        self, function: Callable[_P, _R], /, **options: Unpack[_Settings]
    ) -> Declared[_P, _R]: ...
    # fmt: off
    # tables
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["numpy", MemoryType.NUMPY],
        **options: Unpack[_Options],
    ) -> _Returning[_numpy]: ...
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["cupy", MemoryType.CUPY],
        **options: Unpack[_Options],
    ) -> _Returning[_cupy]: ...
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["torch", MemoryType.TORCH],
        **options: Unpack[_Options],
    ) -> _Returning[_torch]: ...
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["tensorflow", MemoryType.TENSORFLOW],
        **options: Unpack[_Options],
    ) -> _Returning[_tensorflow]: ...
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["jax", MemoryType.JAX],
        **options: Unpack[_Options],
    ) -> _Returning[_jax]: ...
    @overload
    def __call__(
        self, function: None = None, /, *,
        output_type: Literal["pyclesperanto", MemoryType.PYCLESPERANTO],
        **options: Unpack[_Options],
    ) -> _Returning[_pyclesperanto]: ...
    # end of tables
    # fmt: on
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        function: None = None,
        /,
        *,
        output_type: Literal["input"],
        **options: Unpack[_Options],
    ) -> _ReturningInput: ...
    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        output_type: _FrameworkName,
        **options: Unpack[_Options],
    ) -> _Returning[Any]: ...
    @overload
    def __call__(
        self, function: None = None, /, *, output_type: None = None, **options: Unpack[_Options]
    ) -> _ReturningSame: ...
    def __reduce__(self) -> Any: ...

# Decorators with options, by what becomes of the arrays that the function returns.
class _Returning(Protocol[_A]):
    def __call__(self, function: Callable[_P, _R], /) -> _Converting[_R, _A, _P]: ...

class _ReturningInput(Protocol):
    def __call__(self, function: Callable[_P, _R], /) -> _LikeInput[_R, _P]: ...

class _ReturningSame(Protocol):
    def __call__(self, function: Callable[_P, _R], /) -> Declared[_P, _R]: ...

# Without an overload for each framework, so that a mistake in an option is one line.
def memory_types(
    input_type: _FrameworkName,
    output_type: _Output,
    contract: Any = None,
    **options: Unpack[_Settings],
) -> _Returning[Any]: ...

# tables
numpy: Final[Decorator]
cupy: Final[Decorator]
torch: Final[Decorator]
tensorflow: Final[Decorator]
jax: Final[Decorator]
pyclesperanto: Final[Decorator]
# end of tables
