from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Literal, TypedDict, final

from . import decorators as decorators
from .decorators import (
    Declared,
    cupy,
    jax,
    memory_types,
    numpy,
    pyclesperanto,
    tensorflow,
    torch,
)
from .dtype_scaling import (
    SCALING_FUNCTIONS,
    DtypeConversion,
)
from .exceptions import (
    AliasedArgumentError,
    ClippedValuesWarning,
    CopyRequiredError,
    DeviceMemoryError,
    DeviceUnavailableError,
    FrameworkNotInstalledError,
    MemoryConversionError,
    OomFallbackWarning,
    SharedImmutableMemoryWarning,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)
from .functions import as_function
from .types import (
    CPU_MEMORY_TYPES,
    GPU_MEMORY_TYPES,
    SUPPORTED_MEMORY_TYPES,
    Converter,
    MemoryType,
)

__all__ = [
    "AliasedArgumentError",
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SCALING_FUNCTIONS",
    "SUPPORTED_MEMORY_TYPES",
    "ClippedValuesWarning",
    "Converter",
    "CopyRequiredError",
    "Declared",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "DtypeConversion",
    "FrameworkNotInstalledError",
    "MemoryConversionError",
    "MemoryType",
    "OomFallbackWarning",
    "Record",
    "SharedImmutableMemoryWarning",
    "Tensor",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
    "__version__",
    "as_function",
    "cleanup_all_gpu_frameworks",
    "convert",
    "convert_memory",
    "registered_pairs",
    "detect_memory_type",
    "dtype_policy",
    "explain",
    "finish_dtype",
    "frameworks",
    "memory_types",
    "no_copy",
    "process_slices",
    "stack_slices",
    "thread_stream",
    "trace",
    "unstack_slices",
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
]

__version__: str

class _Framework(TypedDict):
    name: str
    title: str
    module: str
    install: str
    memory: Literal["host", "accelerator", "either"]

@final
class Record:
    """What a conversion does or did. ``str()`` of it is one readable paragraph."""

    @property
    def source(self) -> str:
        """Name of the framework that the array is of."""
    @property
    def target(self) -> str:
        """Name of the framework that it goes to."""
    @property
    def route(self) -> Literal["keep", "share", "move", "copy", "retry"]:
        """keep: the same object. share: the same memory. move: another device. copy: new memory.
        retry: a declared function was called again when memory ran out; ``how`` says which way."""
    @property
    def how(self) -> str:
        """The way that is taken."""
    @property
    def why(self) -> str | None:
        """The reason for a copy; None where there is none."""
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
        """Where the result is."""
    @property
    def ns(self) -> int | None:
        """Nanoseconds that the conversion took; None where it was only explained."""

@final
class Tensor:
    """An n-dimensional array that belongs to no framework: what Rust functions hand over.

    ``Tensor(data)`` is ``Tensor.from_dlpack(data)``: the memory of any framework's array, or of any
    object with ``__dlpack__``, on the host or a CUDA device.

    >>> import numpy, arraybridge
    >>> arraybridge.Tensor(numpy.zeros((2, 3)))
    <arraybridge.Tensor float64[2, 3] on host>
    """

    __dlpack_c_exchange_api__: ClassVar[Any]
    def __new__(cls, data: Any) -> Tensor: ...
    @staticmethod
    def from_dlpack(data: Any, /, *, copy: bool | None = None) -> Tensor:
        """Share the memory of ``data``; copy it with ``copy=True`` or where it has to be.

        Raises ``MemoryConversionError`` where it cannot be read, ``CopyRequiredError`` where
        ``copy=False`` forbids what would be needed.

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
        """ "host" or "cuda:0"."""

def convert(
    data: Any,
    target: str,
    *,
    device: str | int | None = None,
    copy: bool | None = None,
    dtype: Any = None,
) -> Any:
    """Bring an array, of any shape and any known framework, to the framework ``target``.

    ``device``: "host", "cpu", "accelerator:1", "cuda:1" or an index. None leaves the array on the
    kind of device that it is on, if the target has it.
    ``copy``: None shares memory where the target can wrap it. True makes fresh memory, always.
    False shares or raises ``CopyRequiredError`` with the reason.
    ``dtype``: the dtype to cast to, as a name or as any framework's own object. Without
    it, no value and no dtype changes.

    JAX runs later than it returns: memory that it shares and that is written afterwards changes
    results already asked for.

    Raises ``MemoryConversionError`` or one of its children, and ``ValueError`` for a name that no
    table has.

    >>> import numpy, arraybridge
    >>> arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    array([0., 0., 0.])
    """

def convert_memory(
    data: Any,
    source_type: str,
    target_type: str,
    gpu_id: int | None = None,
    *,
    copy: bool | None = None,
) -> Any:
    """Bring an array of ``source_type`` to ``target_type``, on accelerator ``gpu_id``.

    The array must be of ``source_type``: a wrong label is an error. A framework that has host
    memory only ignores ``gpu_id``. Otherwise like ``convert``.

    >>> import numpy, arraybridge
    >>> arraybridge.convert_memory(numpy.zeros(3), "numpy", "numpy")
    array([0., 0., 0.])
    """

def detect_memory_type(data: Any) -> str:
    """Name of the framework that ``data`` is an array of. Nothing is imported to find out.

    Raises ``UnsupportedArrayError``, a ``ValueError``, where it is an array of none.

    >>> import numpy, arraybridge
    >>> arraybridge.detect_memory_type(numpy.zeros(3))
    'numpy'
    """

def explain(
    data: Any,
    target: str,
    *,
    device: str | int | None = None,
    copy: bool | None = None,
    dtype: Any = None,
) -> Record:
    """Say what ``convert`` would do with the same arguments, without doing it.

    Raises what ``convert`` would raise before it touches the data.

    >>> import numpy, arraybridge
    >>> arraybridge.explain(numpy.zeros(3), "numpy").route
    'keep'
    """

@final
class trace:
    """Collect a record of every conversion inside the ``with`` block.

    >>> import numpy, arraybridge
    >>> with arraybridge.trace() as records:
    ...     _ = arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
    >>> [record.route for record in records]
    ['copy']
    """

    def __new__(cls) -> trace: ...
    def __enter__(self) -> list[Record]: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class no_copy:
    """Make every conversion inside the ``with`` block that names no ``copy`` share or raise.

    Raises, from the conversion, ``CopyRequiredError`` with the reason.

    >>> import numpy, arraybridge
    >>> with arraybridge.no_copy():
    ...     zeros = arraybridge.convert(numpy.zeros(3), "numpy")
    """

    def __new__(cls) -> no_copy: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

def registered_pairs() -> list[tuple[str, str]]:
    """The registered conversions as pairs of names, source first.

    >>> import arraybridge
    >>> ("numpy", "torch") in arraybridge.registered_pairs()
    True
    """

def frameworks() -> list[_Framework]:
    """The frameworks of the table that this wheel was built with.

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
    function: str = "function",
) -> Any:
    """Give a result the dtype that a policy wants, as declared functions do with theirs.

    `result` is an array of any framework and shape, `lead` the array whose dtype is to be
    preserved. `dtype_conversion` is a `DtypeConversion`, its value, or a dtype; `scaling` says how
    floats become integers: "clamp" (round half to even, saturate, NaN to 0), "unit" (the values are
    in [0, 1] or [-1, 1]) or "stretch" (minimum to maximum). What is `None` is the
    context's default.

    Raises `ValueError` for an unknown name and for a complex result that is to be real,
    `UnsupportedDtypeError` where the framework lacks the dtype. Warns with `ClippedValuesWarning`
    when values did not fit.

    >>> import numpy, arraybridge
    >>> image = numpy.array([100, 500], dtype="uint16")
    >>> arraybridge.finish_dtype(numpy.array([99.99, 500.0]), image)
    array([100, 500], dtype=uint16)
    """

@final
class thread_stream:
    """A CUDA stream of the calling thread's own, for CuPy, torch and Rust functions alike.

    Inside the ``with`` block the frameworks work on it, on device ``device``. Entering and leaving
    order it with the streams that they were on; the host does not wait.

    >>> import arraybridge
    >>> with arraybridge.thread_stream(device=0):  # doctest: +SKIP
    ...     result = denoise(image)
    """

    def __new__(cls, device: int = 0) -> thread_stream: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> thread_stream: ...
    def __exit__(self, *_error: object) -> bool: ...

@final
class dtype_policy(AbstractContextManager[None]):
    """Set the default dtype policy of declared functions: `with dtype_policy(scaling="unit"):`.

    `dtype_conversion` is a `DtypeConversion`, "preserve", "native" or a dtype. `scaling` is
    "clamp" (round half to even, saturate, NaN to 0), "unit" (results are in [0, 1] or [-1, 1]) or
    "stretch" (minimum to maximum). An argument that is left out keeps the value that it has outside
    of the block. The arguments of a decorator or a call take precedence over the default. The block
    affects its own context only: its thread, or its asyncio task.

    Raises `ValueError` for an unknown name, and `RuntimeError` when one object is entered twice.

    >>> import arraybridge
    >>> with arraybridge.dtype_policy(dtype_conversion="native"):
    ...     pass  # declared functions keep the dtype that they return
    """

    def __new__(
        cls,
        dtype_conversion: Any = None,
        scaling: Literal["clamp", "unit", "stretch"] | None = None,
    ) -> dtype_policy: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_exception: Any) -> None: ...

def stack_slices(slices: Iterable[Any], memory_type: str, gpu_id: int | None = None) -> Any:
    """Stack 2-D slices to a 3-D array of the framework `memory_type`, on accelerator `gpu_id`.

    `slices` are n arrays of the shape (height, width), of one framework or of several; the result
    has the shape (n, height, width). It has their dtype; slices of several dtypes get the one that
    NumPy promotes them to. Without `gpu_id` the result is where `convert` would put the first
    slice.

    Raises `ValueError` when there are no slices, when one is not 2-D, when their shapes differ, and
    for an unknown name; otherwise what `convert` raises.

    >>> import numpy, arraybridge
    >>> arraybridge.stack_slices([numpy.zeros((2, 3)), numpy.ones((2, 3))], "numpy").shape
    (2, 2, 3)
    """

def unstack_slices(
    array: Any, memory_type: str, gpu_id: int | None = None, validate_slices: bool = True
) -> list[Any]:
    """Take a 3-D array apart into a list of 2-D slices of the framework `memory_type`.

    `array` has the shape (n, height, width) and is brought to `memory_type`, on accelerator
    `gpu_id`, first; the result is a list of n arrays of the shape (height, width), views where the
    framework has views. `validate_slices` checks that each slice is 2-D.

    Raises `ValueError` when the array is not 3-D, when a slice is not 2-D and for an unknown name;
    otherwise what `convert` raises.

    >>> import numpy, arraybridge
    >>> [s.shape for s in arraybridge.unstack_slices(numpy.zeros((2, 4, 3)), "numpy")]
    [(4, 3), (4, 3)]
    """

def process_slices(
    image: Any,
    func: Callable[..., Any],
    args: Iterable[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    gpu_id: int | None = None,
) -> Any:
    """Call a function with each 2-D slice of a 3-D array, and stack what it returns.

    `func` is called as `func(slice, *args, **kwargs)` with each of the n slices of `image`, which
    has the shape (n, height, width). The arrays that it returns, of any equal shape, are stacked in
    the image's framework, on accelerator `gpu_id`, or where the image is. Where it returns tuples,
    that is done with the first element, and every other element becomes a list of length n; results
    that are no arrays become a list.

    Raises `ValueError` when the image is not 3-D or has no slices, and when results differ in shape
    or in number; what `func` raises; otherwise what `convert` raises.

    >>> import numpy, arraybridge
    >>> image = numpy.arange(12).reshape(2, 2, 3)
    >>> arraybridge.process_slices(image, lambda s: (s.T, s.sum()), (), {})[0].shape
    (2, 3, 2)
    """

def cleanup_all_gpu_frameworks(device_id: int | None = None) -> dict[str, list[int]]:
    """Have the frameworks that are loaded give back the device memory that they cache.

    Garbage is collected first. `device_id` is the index of an accelerator; `None` means all.
    Nothing
    is imported, and without an accelerator nothing is done. Memory that arrays use stays as it is.

    Gives back which frameworks were cleared on which devices: `{"torch": [0]}`. A framework that
    fails is a `RuntimeWarning`. Raises `TypeError` for a `device_id` that is no index.

    >>> import arraybridge
    >>> cleared = arraybridge.cleanup_all_gpu_frameworks()
    """
