"""The exceptions and warnings of arraybridge.

They are defined in Python so that every extension built on ``arraybridge-runtime`` raises the same
classes.
"""

from __future__ import annotations

__all__ = [
    "AliasedArgumentError", "ClippedValuesWarning", "CopyRequiredError", "DeviceMemoryError",
    "DeviceUnavailableError", "FractionsLostWarning", "FrameworkNotInstalledError",
    "FrameworkTableError", "GradientDetachedWarning", "InvalidDeviceError", "InvalidTableError",
    "LabelOrderWarning", "MemoryConversionError", "MetadataDroppedWarning", "NarrowedDtypeWarning",
    "NoAcceleratorWarning", "NotDifferentiableError", "OomFallbackWarning", "ResultCollapsedError",
    "RoundedIntegersWarning", "RustPanicError", "SharedImmutableMemoryWarning",
    "UnexpectedResultError", "UnknownFrameworkError", "UnsupportedArrayError",
    "UnsupportedDtypeError",
]  # fmt: skip


class MemoryConversionError(Exception):
    """A conversion is not possible.

    ``source_type`` and ``target_type`` are the names of the frameworks. ``method`` is the step that
    failed. ``reason`` is the reason, with a remedy. ``place`` is the declared function and its
    argument, or None. If the framework raised an exception, that is the ``__cause__``.

    >>> from arraybridge import MemoryConversionError
    >>> error = MemoryConversionError("torch", "jax", "dtype", "JAX has no int64")
    >>> str(error)
    'cannot convert from torch to jax: JAX has no int64'
    """

    def __init__(
        self,
        source_type: str,
        target_type: str,
        method: str,
        reason: str,
        place: str | None = None,
    ) -> None:
        super().__init__(source_type, target_type, method, reason, place)
        self.source_type = source_type
        self.target_type = target_type
        self.method = method
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        if self.source_type == self.target_type:
            return f"{place}cannot place the {self.target_type} array: {self.reason}"
        return f"{place}cannot convert from {self.source_type} to {self.target_type}: {self.reason}"


class DeviceUnavailableError(MemoryConversionError):
    """The requested device does not exist. The message lists the existing ones."""


class InvalidDeviceError(DeviceUnavailableError, ValueError):
    """The number, such as a negative one, cannot be the index of a device."""


class UnsupportedDtypeError(MemoryConversionError):
    """The target lacks the dtype. The message shows a cast."""


class UnsupportedArrayError(MemoryConversionError, ValueError):
    """The object cannot be converted: it is masked, sparse, traced, deleted, or not an array."""


class CopyRequiredError(MemoryConversionError):
    """``copy=False`` was given, but the memory cannot be shared. The message gives the reason."""


class FrameworkNotInstalledError(MemoryConversionError, ImportError):
    """The framework cannot be imported: it is not installed, or it is broken.

    The message names the case, and the way to install or repair the framework.
    """


class FrameworkTableError(MemoryConversionError):
    """A framework does not match its table. The message names the wrong key.

    A trial with a small array precedes the first conversion by each route and dtype.
    """


class InvalidTableError(ValueError):
    """A table of a framework has mistakes.

    ``mistakes`` lists them, each with its file, line and column, and with what to write instead.

    >>> import arraybridge
    >>> try:
    ...     arraybridge.load_table(text="[mine]")
    ... except arraybridge.InvalidTableError as error:
    ...     print(error.mistakes[0])
    <text>:1:2: [mine] has no `classes`; add classes = ["mine.SomeArray"]
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class UnknownFrameworkError(MemoryConversionError, ValueError):
    """The name of a framework is unknown. The message lists the known names.

    ``source_type`` and ``target_type`` are the unknown name.
    """

    def __str__(self) -> str:
        return self.reason


class ResultCollapsedError(MemoryConversionError, ValueError):
    """Rounding to integers would destroy a function's result.

    A function computed floats from an image of integers, and the default dtype policy was to round
    them to the dtype of the image. But they are fractions within [-1, 1], as scikit-image returns
    them, and the image is not; or rounding would take a quarter of their root mean square. The
    message shows both ranges, and names the ways out: ``scaling="unit"``,
    ``dtype_conversion="native"`` and ``dtype_conversion="preserve"``.

    >>> import arraybridge, numpy
    >>> halves = arraybridge.numpy(lambda image: image / 65536)
    >>> try:
    ...     halves(numpy.array([100, 40000], "uint16"))
    ... except arraybridge.ResultCollapsedError as error:
    ...     print("native" in str(error))
    True
    >>> halves(numpy.array([100, 40000], "uint16"), dtype_conversion="preserve")
    array([0, 1], dtype=uint16)
    """

    def __str__(self) -> str:
        return self.reason


class NotDifferentiableError(MemoryConversionError, TypeError):
    """No gradient can flow through a declared function.

    Gradients of two frameworks meet in one call, the function writes to its argument, or a
    derivative that is given by hand has no derivative itself. The message names the way out.
    """

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


class OomFallbackWarning(UserWarning):
    """A declared function ran out of memory on its device and was retried on the host."""


class DeviceMemoryError(MemoryError):
    """A Rust function ran out of device memory. Declared functions are then retried.

    ``memory_type`` is the name of the framework that the function is declared for, if any.

    >>> from arraybridge import DeviceMemoryError
    >>> DeviceMemoryError("CUDA has no device memory left").memory_type is None
    True
    """

    memory_type: str | None = None


class RustPanicError(RuntimeError):
    """A Rust function panicked, which is a mistake in it.

    The message names the function, the place in its source, and the reason.

    >>> from arraybridge import RustPanicError
    >>> issubclass(RustPanicError, RuntimeError)
    True
    """


class AliasedArgumentError(ValueError):
    """A Rust function would write to memory that another argument uses.

    The other argument may also belong to another running Rust function.
    """


class UnexpectedResultError(ValueError):
    """The result of a function that a compiled program calls does not match ``result=``.

    The message names the function, its result and the expected result.
    """


class SharedImmutableMemoryWarning(UserWarning):
    """A writable array shares the memory of an immutable one."""


class GradientDetachedWarning(UserWarning):
    """No gradient flows back through an array.

    It requires a gradient and was converted to another framework: ``x.detach()`` says that this is
    intended. Or a function's floats became integers in a trace, by the default dtype policy, and
    the trace does not say whether a gradient is computed: ``dtype_conversion`` says what is
    intended.
    """


class NoAcceleratorWarning(UserWarning):
    """``gpu_id`` was given, but the framework finds no accelerator on this machine.

    The arrays are on the host.
    """


class MetadataDroppedWarning(UserWarning):
    """A result is the array alone, without the labels, the unit or the geometry of an argument.

    The array was inside an object, such as an ``xarray.DataArray``, that cannot hold the result.
    The message names the reason. ``keep="strict"`` makes it an error, and ``keep=False`` says that
    it is intended.
    """


class LabelOrderWarning(UserWarning):
    """Labelled arguments have the same axes or the same labels in another order.

    xarray and pandas combine such objects by their labels, and a declared function combines arrays
    by position. The message names the function, the arguments and both orders, and shows how to
    bring one into the order of the other. The result is the array alone.
    """


class NarrowedDtypeWarning(UserWarning):
    """A framework lacks a dtype, so arrays were converted to its nearest dtype.

    ``narrow="error"`` makes it an error.
    """


class ClippedValuesWarning(UserWarning):
    """Values of a function's result or argument did not fit the dtype that they were cast to.

    Integers were clipped, and finite numbers became infinite. Results are cast by the dtype policy,
    and arguments to ``input_dtype`` or to the parameter of a Rust function. The message names the
    function and the number of lost values. Values on an accelerator are not counted.
    """


class FractionsLostWarning(UserWarning):
    """The default dtype policy rounded values of a function's result to whole numbers.

    The message names the function, counts the values and names a policy that keeps them. It is not
    given if ``dtype_conversion`` was chosen.
    """


class RoundedIntegersWarning(UserWarning):
    """Integers were cast to floats that cannot represent all of them.

    The integers were an argument of a Rust function, one that was cast to ``input_dtype``, or the
    result of a declared function that was cast by its dtype policy. float32 represents all integers
    up to 2**24, and float64 those up to 2**53; larger ones are rounded. The message names the
    function and the number of changed values. Values on an accelerator are not counted.
    """


for _name in __all__:
    # Users import them from the package, and pickle uses that name.
    globals()[_name].__module__ = "arraybridge"
