"""The exceptions and warnings of arraybridge.

They are defined here, in Python, so that the extension module and every other extension that is
built on ``arraybridge-runtime`` raise the same classes.
"""

from __future__ import annotations

__all__ = [
    "AliasedArgumentError",
    "ClippedValuesWarning",
    "CopyRequiredError",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "FrameworkNotInstalledError",
    "MemoryConversionError",
    "OomFallbackWarning",
    "SharedImmutableMemoryWarning",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
]


class MemoryConversionError(Exception):
    """A conversion that cannot be done.

    ``source_type`` and ``target_type`` name the frameworks, ``method`` the step that failed and
    ``reason`` why, and what to do about it. The framework's own exception, if there was one, is
    ``__cause__``.

    >>> error = MemoryConversionError("torch", "jax", "dtype", "JAX has no int64")
    >>> str(error)
    'cannot convert from torch to jax: JAX has no int64'
    """

    def __init__(self, source_type: str, target_type: str, method: str, reason: str) -> None:
        super().__init__(source_type, target_type, method, reason)
        self.source_type = source_type
        self.target_type = target_type
        self.method = method
        self.reason = reason

    def __str__(self) -> str:
        if self.source_type == self.target_type:
            return f"cannot place the {self.target_type} array: {self.reason}"
        return f"cannot convert from {self.source_type} to {self.target_type}: {self.reason}"


class DeviceUnavailableError(MemoryConversionError):
    """The device that was asked for is not there; the message says which are."""


class UnsupportedDtypeError(MemoryConversionError):
    """The target lacks the dtype; the message shows the call that casts on purpose."""


class UnsupportedArrayError(MemoryConversionError, ValueError):
    """The object is none that can be converted: no array, masked, sparse, traced, deleted, ..."""


class CopyRequiredError(MemoryConversionError):
    """``copy=False`` was asked for and the memory cannot be shared; the message says why."""


class FrameworkNotInstalledError(MemoryConversionError, ImportError):
    """The framework cannot be imported; the message shows how to install it."""


class OomFallbackWarning(UserWarning):
    """A declared function ran out of memory on its device, and was called again on the host."""


class DeviceMemoryError(MemoryError):
    """A Rust function found no device memory left; the out-of-memory ladder recognises it.

    ``memory_type`` names the framework that the function is declared for, if it is declared.

    >>> DeviceMemoryError("CUDA has no device memory left").memory_type is None
    True
    """

    memory_type: str | None = None


class AliasedArgumentError(ValueError):
    """An argument that a Rust function writes to shares memory with another one.

    Or with what another Rust function works on at the moment, where one of the two writes.
    """


class SharedImmutableMemoryWarning(UserWarning):
    """An array that can be written to shares the memory of one that never changes."""


class ClippedValuesWarning(UserWarning):
    """Values of a function's result did not fit the dtype that its policy wants, and were clipped.

    The message names the function and how many values it were.
    """


for _name in __all__:
    # They are imported from the package, and pickled by that name.
    globals()[_name].__module__ = "arraybridge"
