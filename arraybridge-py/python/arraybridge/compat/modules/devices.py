"""Devices as objects."""

from arraybridge.compat.devices import HOST, AcceleratorDevice, Device, HostDevice, NamedDevice

__all__ = ["HOST", "AcceleratorDevice", "Device", "HostDevice", "NamedDevice"]
