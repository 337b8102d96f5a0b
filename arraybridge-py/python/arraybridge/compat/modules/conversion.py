"""Records of conversions."""

from arraybridge.compat.observers import (
    ConversionCounters,
    ConversionObserver,
    ConversionRecord,
    ConversionRoute,
    ConversionTotal,
    DeviceMove,
    DLPackExchange,
    HostCopy,
    IgnoreConversions,
    SharedHostBuffer,
    StaysInPlace,
)

__all__ = [
    "ConversionCounters",
    "ConversionObserver",
    "ConversionRecord",
    "ConversionRoute",
    "ConversionTotal",
    "DeviceMove",
    "DLPackExchange",
    "HostCopy",
    "IgnoreConversions",
    "SharedHostBuffer",
    "StaysInPlace",
]
