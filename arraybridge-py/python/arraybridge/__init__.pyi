from types import TracebackType
from typing import Any, Literal, TypedDict, final

from .exceptions import (
    AliasedArgumentError,
    CopyRequiredError,
    DeviceUnavailableError,
    FrameworkNotInstalledError,
    MemoryConversionError,
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
    "SUPPORTED_MEMORY_TYPES",
    "Converter",
    "CopyRequiredError",
    "DeviceUnavailableError",
    "FrameworkNotInstalledError",
    "MemoryConversionError",
    "MemoryType",
    "Record",
    "SharedImmutableMemoryWarning",
    "Tensor",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
    "__version__",
    "as_function",
    "convert",
    "convert_memory",
    "converters",
    "detect_memory_type",
    "explain",
    "frameworks",
    "no_copy",
    "trace",
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
    def route(self) -> Literal["keep", "share", "move", "copy"]:
        """keep: the same object. share: the same memory. move: another device. copy: new memory."""
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

    Raises ``TypeError`` where it is an array of none.

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

def converters() -> list[tuple[str, str]]:
    """The registered conversions as pairs of names, source first.

    >>> import arraybridge
    >>> ("numpy", "torch") in arraybridge.converters()
    True
    """

def frameworks() -> list[_Framework]:
    """The frameworks of the table that this wheel was built with.

    >>> import arraybridge
    >>> arraybridge.frameworks()[0]["title"]
    'NumPy'
    """
