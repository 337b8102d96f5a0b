from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, TypedDict, TypeVar, final, overload

from . import decorators as decorators
from ._blocks import dtype_policy, no_copy, progress
from ._settings import configure
from ._tables import load_table

# Names of the original package's later versions.
from .compat.configs import SliceBySliceRuntimeParameter as SliceBySliceRuntimeParameter
from .compat.contracts import (
    MemoryContractAttribute as MemoryContractAttribute,
    wrap_dtype_preserving_callable as wrap_dtype_preserving_callable,
)
from .compat.devices import (
    HOST as HOST,
    AcceleratorDevice as AcceleratorDevice,
    Device as Device,
    HostDevice as HostDevice,
    NamedDevice as NamedDevice,
)
from .compat.libraries import Array as Array, ArrayLibrary as ArrayLibrary
from .compat.observers import (
    ConversionCounters as ConversionCounters,
    ConversionObserver as ConversionObserver,
    ConversionRecord as ConversionRecord,
    ConversionRoute as ConversionRoute,
)
from .compat.payloads import ArrayGeometry as ArrayGeometry, ArrayPayload as ArrayPayload
from .compilers import ProgramPlan, explain_program, jax_callback, torch_op
from .decorators import Declared, Decorator, _FrameworkName, _Name, memory_types
from .dtype_scaling import (
    SCALING_FUNCTIONS,
    DtypeConversion,
)
from .exceptions import *
from .functions import as_function
from .tracing import observe, trace
from .trees import TreePlan, convert_tree, explain_tree
from .types import (
    CPU_MEMORY_TYPES,
    GPU_MEMORY_TYPES,
    SUPPORTED_MEMORY_TYPES,
    ArrayLike,
    Converter,
    MemoryType,
)
from .wrappers import WrappedCall, register_wrapper

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

__all__ = [
    "AliasedArgumentError", "ArrayLike", "CPU_MEMORY_TYPES", "GPU_MEMORY_TYPES",
    "SCALING_FUNCTIONS", "SUPPORTED_MEMORY_TYPES", "ClippedValuesWarning", "Converter",
    "CopyRequiredError", "Declared", "DeviceMemoryError", "DeviceUnavailableError",
    "DtypeConversion", "FractionsLostWarning", "FrameworkNotInstalledError",
    "FrameworkTableError", "GradientDetachedWarning", "InvalidDeviceError", "InvalidTableError",
    "LabelOrderWarning", "MemoryConversionError", "MemoryType", "MetadataDroppedWarning",
    "NarrowedDtypeWarning", "NoAcceleratorWarning", "NotDifferentiableError",
    "OomFallbackWarning", "ProgramPlan", "Record", "ResultCollapsedError",
    "RoundedIntegersWarning", "RustPanicError", "SharedImmutableMemoryWarning", "Tensor",
    "TreePlan", "UnexpectedResultError", "UnknownFrameworkError", "UnsupportedArrayError",
    "UnsupportedDtypeError", "WrappedCall", "__version__", "as_function",
    "cleanup_all_gpu_frameworks", "configure", "convert", "convert_memory", "convert_tree",
    "registered_pairs", "detect_memory_type", "dtype_policy", "explain", "explain_program",
    "explain_tree", "finish_dtype", "frameworks", "jax_callback", "load_table", "memory_types",
    "no_copy", "observe", "process_slices", "progress", "register_wrapper", "stack_slices",
    "thread_stream", "torch_op", "trace", "unstack_slices",
    # tables
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
    # end of tables
]  # fmt: skip

__version__: str

# tables
numpy: Final[Decorator]
cupy: Final[Decorator]
torch: Final[Decorator]
tensorflow: Final[Decorator]
jax: Final[Decorator]
pyclesperanto: Final[Decorator]
# end of tables

_A = TypeVar("_A")
_A_co = TypeVar("_A_co", covariant=True)

# The modules of frameworks, by the name that the class of their arrays has there.
class _Tensors(Protocol[_A_co]):
    @property
    def Tensor(self) -> type[_A_co]: ...

class _Arrays(Protocol[_A_co]):
    @property
    def Array(self) -> type[_A_co]: ...

class _Ndarrays(Protocol[_A_co]):
    @property
    def ndarray(self) -> type[_A_co]: ...

# What becomes of the object that an array is in.
_Keep = bool | Literal["strict"]

class _Framework(TypedDict):
    name: _Name
    title: str
    module: str
    install: str
    memory: Literal["host", "accelerator", "either"]

@final
class Record:
    """The plan of a conversion, or its outcome. ``str()`` is one readable line.

    The spans of a trace are records of calls and of retries. Records are equal if the same actions
    were taken, at any time and place. They can be pickled and copied.
    """

    def __new__(
        cls,
        source: str,
        target: str,
        route: str,
        how: str,
        why: str | None,
        via: str,
        dtype: str,
        shape: Sequence[int],
        nbytes: int,
        device: str,
        ns: int | None,
        start: int | None = None,
        pid: int | None = None,
        thread: int | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> Record: ...
    def __reduce__(self) -> tuple[type[Record], tuple[Any, ...]]: ...
    @property
    def source(self) -> str:
        """Name of the source framework."""
    @property
    def target(self) -> str:
        """Name of the target framework."""
    @property
    def route(self) -> Literal["keep", "share", "move", "copy", "retry", "call", "rung"]:
        """keep: the same object. share: the same memory. move: another device. copy: new memory.
        retry: a declared function ran out of memory and was retried; ``how`` is the way.

        Of spans: call, of the declared function ``how``; rung, one retry. ``why`` is its error."""
    @property
    def how(self) -> str:
        """How the route is carried out."""
    @property
    def why(self) -> str | None:
        """The reason for a copy; None if there is no copy."""
    @property
    def remedy(self) -> str | None:
        """A way to avoid the copy; None if there is no copy, or no way."""
    @property
    def via(self) -> str:
        """The steps: the access to the source's memory, the actions, the import by the target."""
    @property
    def dtype(self) -> str:
        """Name of the dtype."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
    @property
    def device(self) -> str:
        """Device of the result: "host" or "accelerator:0"."""
    @property
    def ns(self) -> int | None:
        """Duration of the conversion in nanoseconds; None if the conversion was only explained."""
    @property
    def start(self) -> int | None:
        """The start, in nanoseconds since 1970; None if the conversion was only explained."""
    @property
    def pid(self) -> int | None:
        """The process."""
    @property
    def thread(self) -> int | None:
        """The thread, as ``threading.get_native_id`` numbers it."""
    @property
    def file(self) -> str | None:
        """The file of the innermost caller outside arraybridge."""
    @property
    def line(self) -> int | None:
        """The line in that file."""

@final
class Tensor:
    """An n-dimensional array that belongs to no framework. Rust functions can return one.

    ``Tensor(data)`` is ``Tensor.from_dlpack(data)``. ``data`` is an array of any framework or any
    object with ``__dlpack__``, on the host or on a CUDA device.

    >>> import numpy, arraybridge
    >>> arraybridge.Tensor(numpy.zeros((2, 3)))
    <arraybridge.Tensor float64[2, 3] on host>
    """

    __dlpack_c_exchange_api__: ClassVar[Any]
    def __new__(cls, data: Any) -> Tensor: ...
    @staticmethod
    def from_dlpack(data: Any, /, *, copy: bool | None = None) -> Tensor:
        """Share the memory of ``data``, or copy it if necessary or with ``copy=True``.

        Raises ``MemoryConversionError`` if ``data`` cannot be read, and ``CopyRequiredError`` if a
        copy is necessary and ``copy=False``.

        >>> import numpy, arraybridge
        >>> arraybridge.Tensor.from_dlpack(numpy.zeros(3)).nbytes
        24
        """

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __jax_array__(self) -> Any: ...
    def __reduce__(self) -> tuple[type[Tensor], tuple[Any]]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
    @property
    def dtype(self) -> str:
        """Name of the dtype."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
    @property
    def device(self) -> str:
        """Device of the elements: "host" or "cuda:0"."""

# fmt: off
# tables
@overload
def convert(
    data: Any, target: Literal["numpy", MemoryType.NUMPY], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _numpy: ...
@overload
def convert(
    data: Any, target: Literal["cupy", MemoryType.CUPY], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _cupy: ...
@overload
def convert(
    data: Any, target: Literal["torch", MemoryType.TORCH], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _torch: ...
@overload
def convert(
    data: Any, target: Literal["tensorflow", MemoryType.TENSORFLOW], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _tensorflow: ...
@overload
def convert(
    data: Any, target: Literal["jax", MemoryType.JAX], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _jax: ...
@overload
def convert(
    data: Any, target: Literal["pyclesperanto", MemoryType.PYCLESPERANTO], *, device: Any = None,
    copy: bool | None = None, dtype: Any = None, keep: Literal[False] | None = None,
) -> _pyclesperanto: ...
# end of tables
# fmt: on
@overload
def convert(
    data: Any,
    target: _Tensors[_A] | _Arrays[_A] | _Ndarrays[_A],
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    keep: Literal[False] | None = None,
) -> _A: ...
@overload
def convert(
    data: Any,
    target: type[_A],
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    keep: Literal[False] | None = None,
) -> _A: ...
@overload
def convert(
    data: Any,
    target: _FrameworkName,
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    keep: _Keep | None = None,
) -> Any:
    """Convert an array of any framework to an array of `target`.

    Parameters
    ----------
    data : array
        An array of any known framework, of any shape, or what NumPy sees as an array: a data
        frame, an image, a buffer, or an object with `__array__`, `__array_interface__` or
        `__dlpack__`.
    target : str, MemoryType, module or type
        The framework to convert to: "numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto".
        The framework's module and its array class are taken as its name.
    device : str, int or device, optional
        "host", "cpu", "accelerator:1", "cuda:1", the index of an accelerator, or a device of
        torch, JAX or CuPy.
        All CPUs of a machine are the host. Where JAX or TensorFlow divides it into several devices,
        "cpu:1" is the second of them. By default the array stays on its kind of device if the
        target has one, and goes to the target's current device otherwise.
    copy : bool, optional
        None shares memory if the target can wrap it, and copies otherwise. True always copies.
        False shares, or raises CopyRequiredError with the reason. `configure` sets the default.
    dtype : str or dtype, optional
        The dtype to cast to: a name, also one of NumPy's such as "f4", the dtype object of any
        framework, or a type such as float. Floats are rounded half to even, values outside the
        range of an integer dtype are clamped, NaN becomes 0. The byte order of a dtype means
        nothing: what is cast has that of the machine, and what is kept has its own. By default
        neither values nor dtype change.
    keep : bool or "strict", optional
        True returns an object like `data` with the converted array inside, such as an
        `xarray.DataArray` (see `register_wrapper`). If it cannot hold the array, the array is
        returned, with a MetadataDroppedWarning; "strict" makes that an error. By default the array
        is returned, with the warning if it had a unit. False never warns.

    Returns
    -------
    array
        An array of `target` with the same shape. If `data` already fits, it is returned itself.

    Raises
    ------
    MemoryConversionError
        Or a subclass: DeviceUnavailableError, UnsupportedDtypeError, UnsupportedArrayError,
        CopyRequiredError, FrameworkNotInstalledError, FrameworkTableError.
    ValueError
        If the name of a framework, device or dtype is unknown.

    Notes
    -----
    Arrays that share memory see each other's writes. JAX computes asynchronously, so writing to
    memory that JAX shares can change results that were already requested.

    A torch tensor on the host can no longer be resized once it shares its memory, as after
    ``t.numpy()``. A tensor on a GPU still can, and then leaves the other array without memory.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> image = numpy.array([[100.0, 200.5], [-3.0, 70000.0]])
    >>> arraybridge.convert(image, "numpy") is image
    True
    >>> arraybridge.convert(image, "numpy", dtype="uint16")
    array([[  100,   200],
           [    0, 65535]], dtype=uint16)
    """

def convert_memory(
    data: Any,
    source_type: _FrameworkName,
    target_type: _FrameworkName,
    gpu_id: int | Device | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
) -> Any:
    """Convert an array of `source_type` to `target_type`.

    Parameters
    ----------
    data : array
        An array of `source_type`, of any shape. NumPy's scalars count as arrays here.
    source_type, target_type : str or MemoryType
        Names of frameworks.
    gpu_id : int, optional
        The index of the target's accelerator to prefer. Frameworks without device memory ignore it.
        A framework that finds no accelerator on this machine leaves the array on the host, with a
        NoAcceleratorWarning. A device object is taken as `device`.
    device : str, int or device, optional
        As in `convert`: the device that the array must be on.
    copy : bool, optional
        As in `convert`.

    Returns
    -------
    array
        An array of `target_type` with the same shape. If the target lacks the dtype, the array gets
        the nearest dtype that it has, with a NarrowedDtypeWarning.

    Raises
    ------
    MemoryConversionError
        As in `convert`, and if `data` is not an array of `source_type`, or a value does not fit
        the nearest dtype.
    TypeError
        If `gpu_id` is not an int or a device, or if both `gpu_id` and `device` are given.
    InvalidDeviceError
        If `gpu_id` is negative. It is also a ValueError.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> arraybridge.convert_memory(numpy.zeros(3), "numpy", "numpy")
    array([0., 0., 0.])
    """

def detect_memory_type(data: Any) -> _Name:
    """Return the name of the framework that an array belongs to, without importing anything.

    The object's class and its base classes are looked up by name, so subclasses and wrappers such
    as variables belong to the framework they come from.

    Raises
    ------
    UnsupportedArrayError
        If the object is not an array of a known framework. It is also a ValueError.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> arraybridge.detect_memory_type(numpy.zeros(3))
    'numpy'
    """

def explain(
    data: Any,
    target: _FrameworkName,
    *,
    device: Any = None,
    copy: bool | None = None,
    dtype: Any = None,
    keep: _Keep | None = None,
) -> Record:
    """Explain what `convert` would do with the same arguments, without doing it.

    Returns
    -------
    Record
        Its `route` is "keep", "share", "move" or "copy"; its `why` is the reason for a copy.

    Raises
    ------
    MemoryConversionError
        If `convert` would raise it before reading the data.

    Examples
    --------
    >>> import numpy, arraybridge
    >>> record = arraybridge.explain(numpy.zeros((2, 3)), "numpy", copy=True)
    >>> record.route, record.why
    ('copy', 'copy=True asks for fresh memory')
    """

def registered_pairs() -> list[tuple[_Name, _Name]]:
    """Return the pairs of frameworks that have a converter, as names, source first.

    Examples
    --------
    >>> import arraybridge
    >>> ("numpy", "torch") in arraybridge.registered_pairs()
    True
    """

def frameworks() -> list[_Framework]:
    """Return a dict for each framework: those of this build, and those whose tables were loaded.

    The keys are "name", "title", "module" (to import), "install" (what to give to pip) and "memory"
    ("host", "accelerator" or "either").

    Examples
    --------
    >>> import arraybridge
    >>> arraybridge.frameworks()[0]["title"]
    'NumPy'
    """

def finish_dtype(
    result: Any,
    lead: Any,
    *,
    dtype_conversion: Any = None,
    scaling: Literal["clamp", "unit", "stretch"] | None = None,
    range: tuple[int, int] | None = None,
    function: str = "function",
) -> Any:
    """Give a result the dtype of a policy, as declared functions do with their results.

    `result` is an array of any framework and shape. `lead` is the array whose dtype is preserved.
    `dtype_conversion` is "default", "preserve", "native", a `DtypeConversion` or a dtype, as in
    `dtype_policy`. `scaling` is how floats become integers: "clamp" (round half to even, saturate,
    NaN to 0), "unit" (the values are in [0, 1] or [-1, 1]) or "stretch" (minimum to maximum).
    `range` is the pair of integers that these two scale to, such as (0, 4095). `None` stands for
    the default of the context.

    Raises `ResultCollapsedError` if the default would round the result to next to nothing. Raises
    `ValueError` for an unknown name and for a cast from complex to real. Raises
    `UnsupportedDtypeError` if the framework lacks the dtype. Warns with `ClippedValuesWarning` if
    values did not fit, and with `FractionsLostWarning` if the default rounded some.

    >>> import numpy, arraybridge
    >>> image = numpy.array([100, 500], dtype="uint16")
    >>> arraybridge.finish_dtype(numpy.array([100.0, 499.0]), image)
    array([100, 499], dtype=uint16)
    """

@final
class thread_stream:
    """A CUDA stream of the calling thread's own, for CuPy, torch and Rust functions alike.

    Inside the ``with`` block the frameworks work on it, on device ``device``. Entering and leaving
    order it with the streams that they were on; the host does not wait.

    Raises `ValueError` for a negative index, and `RuntimeError` on entry without a CUDA driver.

    >>> import arraybridge
    >>> with arraybridge.thread_stream(device=0):  # doctest: +SKIP
    ...     result = denoise(image)
    """

    def __new__(cls, device: int = 0) -> thread_stream: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> thread_stream: ...
    def __exit__(self, *_error: object) -> bool: ...

def stack_slices(
    slices: Iterable[Any],
    memory_type: _FrameworkName | None = None,
    gpu_id: int | Device | None = None,
    *,
    target_type: _FrameworkName | None = None,
    device: Any = None,
    out: Any = None,
) -> Any:
    """Stack 2-D slices into a 3-D array of the framework `memory_type`.

    `slices` are n arrays of shape (height, width), which may be of different frameworks, or other
    objects that `convert` takes. Those in files, such as arrays of zarr or h5py, are read one by
    one. The result has shape (n, height, width). If the slices have different dtypes, the result
    has the dtype that NumPy promotes them to. `gpu_id` is the accelerator of the result; by default
    the result is where `convert` would put the first slice. `target_type` is another name of
    `memory_type`. `device` is the device that the result must be on, as in `convert`.

    `out` is an array, also in a file, of shape (n, height, width). If it is given instead of a
    framework, the slices are written to it one by one, in its dtype, and it is returned. `slices`
    may be a generator then, whose slices are never all in memory.

    Raises `ValueError` if there are no slices, if one is not 2-D, if their shapes differ, if `out`
    has another shape, or if the framework is unknown. Otherwise raises what `convert` raises.

    >>> import numpy, arraybridge
    >>> arraybridge.stack_slices([numpy.zeros((2, 3)), numpy.ones((2, 3))], "numpy").shape
    (2, 2, 3)
    """

def unstack_slices(
    array: Any,
    memory_type: _FrameworkName | None = None,
    gpu_id: int | Device | None = None,
    validate_slices: bool = True,
    *,
    target_type: _FrameworkName | None = None,
    device: Any = None,
    out: Iterable[Any] | None = None,
) -> list[Any]:
    """Split a 3-D array into a list of 2-D slices of the framework `memory_type`.

    `array` has shape (n, height, width). It is first converted to `memory_type`, on accelerator
    `gpu_id` if given; an array in a file is read and converted chunk by chunk. The result is a list
    of n arrays of shape (height, width), which are views if the framework has views.
    `validate_slices` checks that each slice is 2-D. `target_type` is another name of `memory_type`.
    `device` is the device that they must be on, as in `convert`.

    `out` is a list of n arrays, also in files, of shape (height, width). If it is given instead of
    a framework, one slice after the other is written to them, in their dtypes, and they are
    returned as a list.

    Raises `ValueError` if the array is not 3-D, if a slice is not 2-D, if `out` has other lengths,
    or if the framework is unknown. Otherwise raises what `convert` raises.

    >>> import numpy, arraybridge
    >>> [s.shape for s in arraybridge.unstack_slices(numpy.zeros((2, 4, 3)), "numpy")]
    [(4, 3), (4, 3)]
    """

def process_slices(
    image: Any,
    func: Callable[..., Any],
    args: Iterable[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    gpu_id: int | Device | None = None,
    *,
    device: Any = None,
    out: Any = None,
) -> Any:
    """Call a function with each 2-D slice of an array, and stack the results.

    `image` has shape (n, height, width), or more axes before the last two. `func` is called once
    for each position along these leading axes, as `func(slice, *args, **kwargs)`. The arrays that
    it returns must have equal shapes. They are stacked along the leading axes into an array of the
    image's framework, on accelerator `gpu_id` or on `device` if given, otherwise where the
    image is. If `func` returns tuples, their first elements are stacked, and each of the other
    elements becomes a list of length n, nested for several leading axes. Results that are not
    arrays become a list.

    An image that is read part by part, such as one of zarr or h5py, is read slice by slice. `out`
    is an array that the results are written to instead, slice by slice, in its dtype; it is
    returned in their place.

    Raises `ValueError` if the image has fewer than three axes or no slices, or if results differ in
    shape or number. Otherwise raises what `func` or `convert` raises.

    >>> import numpy, arraybridge
    >>> image = numpy.arange(12).reshape(2, 2, 3)
    >>> arraybridge.process_slices(image, lambda s: (s.T, s.sum()), (), {})[0].shape
    (2, 3, 2)
    """

def cleanup_all_gpu_frameworks(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of every loaded framework.

    Garbage is collected first. `device_id` is the index of an accelerator; `None` stands for all.
    This imports nothing. If no loaded framework has an accelerator, it does nothing, and garbage is
    not collected either. Memory that arrays use is not affected.

    Returns which frameworks were cleared on which devices, such as `{"torch": [0]}`. Warns with
    `RuntimeWarning` if a framework fails. Raises `TypeError` if `device_id` is not an index.

    >>> import arraybridge
    >>> cleared = arraybridge.cleanup_all_gpu_frameworks()
    """
