"""The exceptions and warnings of arraybridge."""

from ._core import (
    CopyRequiredError,
    DeviceUnavailableError,
    FrameworkNotInstalledError,
    MemoryConversionError,
    SharedImmutableMemoryWarning,
    UnsupportedArrayError,
    UnsupportedDtypeError,
)

__all__ = [
    "CopyRequiredError",
    "DeviceUnavailableError",
    "FrameworkNotInstalledError",
    "MemoryConversionError",
    "SharedImmutableMemoryWarning",
    "UnsupportedArrayError",
    "UnsupportedDtypeError",
]
