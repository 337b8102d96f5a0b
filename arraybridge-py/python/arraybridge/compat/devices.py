"""Devices as objects. ``device=`` takes them everywhere, and ``gpu_id=`` does too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["HOST", "AcceleratorDevice", "Device", "HostDevice", "NamedDevice"]


class Device(ABC):
    """A place of arrays. Two objects with equal fields are the same device.

    ``type`` and ``index`` are those that torch's devices have, by which conversions know a device.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of the device in records and messages."""

    @property
    @abstractmethod
    def type(self) -> str:
        """The kind of the device."""


@dataclass(frozen=True, slots=True)
class HostDevice(Device):
    """The memory of the host. There is one, so that its index is None."""

    label = type = "host"
    index = None


@dataclass(frozen=True, slots=True)
class AcceleratorDevice(Device):
    """An accelerator, by the number that its framework gives it."""

    index: int
    type = "accelerator"

    @property
    def label(self) -> str:
        return f"accelerator:{self.index}"


@dataclass(frozen=True, slots=True)
class NamedDevice(Device):
    """A device that a framework knows by a name alone. Conversions refuse it, naming the others."""

    name: str
    index = None

    @property
    def label(self) -> str:
        return f"device:{self.name}"

    type = label


HOST = HostDevice()
"""The host."""


def device_of_label(label: str) -> Device:
    """Return the device of a name in a record."""
    kind, _, index = label.partition(":")
    if kind == "accelerator":
        return AcceleratorDevice(int(index))
    return HOST if kind == "host" else NamedDevice(label)
