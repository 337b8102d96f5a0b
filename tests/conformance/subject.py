"""The module under test, with the few things in which its versions differ."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import bridges
import numpy as np


class Missing(Exception):
    """The module does not offer what the case is about."""


class Subject:
    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(name)
        self.version = str(getattr(self.module, "__version__", "?"))
        self._devices: dict[str, tuple[Any, ...]] = {}

    def convert(self, data: Any, source: Any, target: Any, *device: Any) -> Any:
        """Convert on the host: with the device argument that works for plain arrays."""
        chosen = device or self._device(target)
        return self.module.convert_memory(data, source, target, *chosen)

    def detect(self, data: Any) -> str:
        found = self.module.detect_memory_type(data)
        return str(getattr(found, "value", found))

    def decorator(self, framework: str) -> Any:
        found = getattr(self.module, framework, None)
        if not callable(found):
            raise Missing(f"there is no decorator {framework}")
        return found

    def attribute(self, name: str) -> Any:
        if not hasattr(self.module, name):
            raise Missing(f"there is no {name}")
        return getattr(self.module, name)

    def _device(self, target: Any) -> tuple[Any, ...]:
        if not isinstance(target, str) or target not in bridges.CPU_FRAMEWORKS:
            target = "numpy"
        if target not in self._devices:
            self._devices[target] = self._find_device(target)
        return self._devices[target]

    def _find_device(self, target: str) -> tuple[Any, ...]:
        """The first device argument with which a plain array arrives.

        The original's versions want an index, `None`, or a device object in this place.
        """
        plain = np.arange(6, dtype="float32").reshape(2, 3)
        for device in ((), (0,), (None,), *((d,) for d in self._device_objects(target))):
            try:
                with warnings.catch_warnings(action="ignore"):
                    made = self.module.convert_memory(plain, "numpy", target, *device)
                if bridges.difference(target, made, plain) is None:
                    return device
            except Exception:
                continue
        needed = inspect.signature(self.module.convert_memory).parameters.values()
        if len([p for p in needed if p.default is p.empty]) < 4:
            return ()
        return next(((device,) for device in self._device_objects(target)), (0,))

    def _device_objects(self, target: str):
        devices = getattr(self.module, "HOST", None)
        if devices is None:
            return
        yield devices
        yield self.module.AcceleratorDevice(0)
        if target == "pyclesperanto":
            import pyclesperanto as cle

            yield self.module.NamedDevice(cle.get_device().name)
