"""Frameworks as objects: ``ArrayLibrary.named("torch")`` and ``MemoryType.TORCH.library``.

Each method is a stand-in for a function of this package or of the framework. A device is an object,
an index of an accelerator, or None for the host, as the versions of the original package have it.
"""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, ClassVar

import numpy

from .. import _core, _tables  # type: ignore[attr-defined]
from .._tools import arrays
from .._tools.schema import installed
from ..exceptions import DeviceUnavailableError, UnknownFrameworkError
from ..oom_recovery import execute_with_oom_recovery, is_oom_error
from .devices import HOST, AcceleratorDevice, Device, HostDevice, device_of_label

__all__ = ["Array", "ArrayLibrary"]

_FRAMEWORKS: dict[str, dict[str, Any]] = {}


class _OfAnyFramework(ABCMeta):
    def __instancecheck__(cls, value: object) -> bool:
        return _name_of(value) is not None


class Array(metaclass=_OfAnyFramework):
    """The class of the arrays of all frameworks, for ``isinstance``.

    >>> import numpy, arraybridge
    >>> isinstance(numpy.zeros(3), arraybridge.Array), isinstance([0.0], arraybridge.Array)
    (True, False)
    """


def _name_of(value: object) -> str | None:
    try:
        return str(_core.detect_memory_type(value))
    except ValueError:
        return None


def _reduction(name: str, of_tensorflow: str, about: str) -> Callable[..., Any]:
    def reduced(self: ArrayLibrary, data: Any, axis: Any = None) -> Any:
        function = of_tensorflow if self.name == "tensorflow" else name
        return getattr(self._namespace(data), function)(data, axis)

    reduced.__doc__ = about
    return reduced


class ArrayLibrary:
    """A framework. There is one object for each, which ``named``, ``of`` and ``all`` return.

    >>> import numpy, arraybridge
    >>> library = arraybridge.ArrayLibrary.of(numpy.zeros(3))
    >>> library.name, library.display_name
    ('numpy', 'NumPy')
    """

    __registry__: ClassVar[Mapping[str, ArrayLibrary]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError(
            "ArrayLibrary: a class that is derived from it would convert nothing; "
            "a table adds a framework: python -m arraybridge add TABLE"
        )

    def __init__(self, name: str) -> None:
        framework = _FRAMEWORKS[name]
        self.name = name
        self.display_name: str = framework["title"]
        self.import_name: str = framework["module"]
        self.is_gpu: bool = framework["memory"] != "host"

    def __repr__(self) -> str:
        return f"<library {self.name}>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], ArrayLibrary], tuple[str]]:
        return ArrayLibrary.named, (self.name,)

    # -- Which ------------------------------------------------------------------------------------

    @classmethod
    def all(cls) -> tuple[ArrayLibrary, ...]:
        """Return the frameworks, in the order of the table."""
        return tuple(_LIBRARIES.values())

    @classmethod
    def named(cls, name: str) -> ArrayLibrary:
        """Return the framework of a name. Raises ``UnknownFrameworkError``, a ``ValueError``."""
        try:
            return _LIBRARIES[str(name)]
        except KeyError:
            known = ", ".join(_LIBRARIES)
            reason = f"{name!r} is not a registered array library; known are {known}"
            raise UnknownFrameworkError(str(name), str(name), "name", reason) from None

    @classmethod
    def for_module_name(cls, module_name: str) -> ArrayLibrary:
        """Return the framework that a module belongs to. Raises ``ValueError`` for another one."""
        top = module_name.partition(".")[0]
        for library in _LIBRARIES.values():
            if top in library.recognized_module_names:
                return library
        raise ValueError(f"no array library has the module {module_name!r}")

    @classmethod
    def of(cls, value: object) -> ArrayLibrary:
        """Return the framework of an array. Raises ``UnsupportedArrayError``, a ``ValueError``."""
        return _LIBRARIES[_core.detect_memory_type(value)]

    def accepts(self, value: object) -> bool:
        """Return whether a value is an array of the framework."""
        return _name_of(value) == self.name

    # -- The module -------------------------------------------------------------------------------

    @property
    def recognized_module_names(self) -> frozenset[str]:
        """The packages whose arrays are the framework's."""
        return frozenset({self.import_name, *_MORE_MODULES.get(self.name, ())})

    def is_installed(self) -> bool:
        """Return whether the package is there, without importing it."""
        return self.loaded_module() is not None or installed(self.import_name)

    def prepare_import(self) -> None:
        """Do nothing: no environment variable is needed for an import."""

    def loaded_module(self) -> ModuleType | None:
        """Return the module if it is imported."""
        return sys.modules.get(self.import_name)

    def import_module(self) -> ModuleType:
        """Import the module."""
        return importlib.import_module(self.import_name)

    def import_if_installed(self) -> ModuleType | None:
        """Import the module if it is installed."""
        return self.import_module() if self.is_installed() else None

    @property
    def module(self) -> ModuleType:
        """The module, which is imported."""
        return self.loaded_module() or self.import_module()

    @staticmethod
    def child_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a copy of an environment, by default that of this process."""
        return dict(os.environ if environment is None else environment)

    subprocess_environment = child_environment

    # -- Devices ----------------------------------------------------------------------------------

    def available_devices(self) -> tuple[Device, ...]:
        """Return the places for the framework's arrays on this machine."""
        if self.import_if_installed() is None:
            return (HOST,) if _FRAMEWORKS[self.name]["memory"] != "accelerator" else ()
        return tuple(map(device_of_label, arrays.places(self.name)))

    def host_devices(self) -> tuple[Device, ...]:
        """Return the host, if the framework has arrays there."""
        return tuple(each for each in self.available_devices() if isinstance(each, HostDevice))

    def accelerator_devices(self) -> tuple[AcceleratorDevice, ...]:
        """Return the accelerators of the framework on this machine."""
        found = self.available_devices() if self.is_gpu else ()
        return tuple(each for each in found if isinstance(each, AcceleratorDevice))

    def available_device_ids(self, module: Any = None) -> tuple[int, ...]:
        """Return the indices of the accelerators."""
        return tuple(device.index for device in self.accelerator_devices())

    def device_of(self, data: Any) -> Device:
        """Return the device of an array."""
        index = _core.device_id(data)
        return HOST if index is None else AcceleratorDevice(index)

    def device_id_of(self, data: Any, module: Any = None) -> int | None:
        """Return the index of the accelerator that an array is on; None for the host."""
        index: int | None = _core.device_id(data)
        return index

    def require_device(self, device: Device | int | None, module: Any = None) -> Any:
        """Raise ``DeviceUnavailableError`` if the device does not exist. Return the module."""
        if isinstance(device, Device) or self.is_gpu:
            wanted = _device(device)
            available = self.available_devices()
            if wanted not in available:
                labels = ", ".join(each.label for each in available) or "none"
                raise _Unavailable(
                    self.name,
                    self.name,
                    "device",
                    f"{self.display_name} device {wanted.label} is unavailable; available are "
                    f"{labels}",
                )
        return module if module is not None else self.import_if_installed()

    def device_scope(
        self, device: Device | int | None, module: Any = None
    ) -> AbstractContextManager[Any]:
        """Return a block in which the framework makes new arrays on a device."""
        self.require_device(device)
        place = _device(device)
        if not isinstance(place, AcceleratorDevice):
            return nullcontext()
        scopes: dict[str, Callable[[Any, int], AbstractContextManager[Any]]] = {
            "torch": lambda torch, index: torch.cuda.device(index),
            "jax": lambda jax, index: jax.default_device(jax.local_devices(backend="gpu")[index]),
            "pyclesperanto": _selected_device,
        }
        if self.name in scopes:
            return scopes[self.name](self.module, place.index)
        return arrays.scope(self.name, place.label)

    def move_to_device(self, data: Any, device: Device | int | None, module: Any = None) -> Any:
        """Return an array on a device: the array itself if it is there."""
        if device is None or not (self.is_gpu or isinstance(device, Device)):
            return data
        return _core.convert(data, self.name, device=_device(device))

    # -- Conversions ------------------------------------------------------------------------------

    def convert_to(
        self, data: Any, target: ArrayLibrary | str, device: Device | int | None = None
    ) -> Any:
        """Convert an array of this framework to another framework."""
        return _core.convert_memory(data, self.name, str(target), device)

    def to_numpy(self, data: Any, module: Any = None) -> numpy.ndarray:
        """Convert an array of this framework to NumPy."""
        result: numpy.ndarray = _core.convert_memory(data, self.name, "numpy")
        return result

    def from_numpy(
        self, data: numpy.ndarray, device: Device | int | None = None, module: Any = None
    ) -> Any:
        """Convert an array of NumPy to this framework."""
        return _core.convert_memory(data, "numpy", self.name, device)

    def nbytes_of(self, data: Any) -> int:
        """Return the size of an array's elements in bytes."""
        return int(_core.explain(data, self.name).nbytes)

    @property
    def imports_dlpack(self) -> bool:
        """Return whether the framework takes memory of others that DLPack describes."""
        return self.name not in ("numpy", "pyclesperanto")

    supports_dlpack = imports_dlpack

    # -- Arrays -----------------------------------------------------------------------------------

    def stack_arrays(
        self, values: Sequence[Any], device: Device | int | None = None, module: Any = None
    ) -> Any:
        """Stack arrays along a new first axis."""
        return _core.stack_slices(list(values), self.name, device)

    def dtype_name(self, dtype: Any) -> str:
        """Return the name that NumPy has for a dtype."""
        # TensorFlow's dtypes have a name, and torch's end with one.
        name = getattr(dtype, "name", None)
        if type(dtype).__module__.partition(".")[0] == "torch":
            name = str(dtype).rpartition(".")[2]
        return name if isinstance(name, str) else numpy.dtype(dtype).name

    canonical_dtype_name = dtype_name

    def astype(self, data: Any, dtype: Any, module: Any = None) -> Any:
        """Cast an array as ``convert(dtype=)`` does: values that do not fit are clamped."""
        return _core.convert(data, self.name, dtype=dtype)

    def scale_dtype(self, data: Any, target_dtype: Any, module: Any = None) -> Any:
        """Cast an array; floats that become integers are stretched to the range of the dtype."""
        if not hasattr(data, "dtype"):
            return data
        name = self.dtype_name(target_dtype)
        return _core.finish_dtype(data, data, dtype_conversion=name, scaling="stretch")

    def normalize_planes(
        self, data: Any, dtype: Any, scales: Sequence[float | None], module: Any = None
    ) -> Any:
        """Cast the planes of the first axis, and divide each by its scale."""
        if len(scales) != data.shape[0]:
            raise ValueError(
                f"normalize_planes: there are {len(scales)} scales for {data.shape[0]} planes of "
                "the leading plane axis"
            )
        planes = [self.astype(data[index], dtype) for index in range(len(scales))]
        parts = [p if s is None else p / float(s) for p, s in zip(planes, scales, strict=True)]
        return self._namespace(data).stack(parts)

    def reshape(self, data: Any, shape: Sequence[int], module: Any = None) -> Any:
        """Return the elements of an array in another shape."""
        return self._namespace(data).reshape(data, tuple(shape))

    def broadcast_to(self, data: Any, shape: Sequence[int], module: Any = None) -> Any:
        """Return an array repeated along axes."""
        return self._namespace(data).broadcast_to(data, tuple(shape))

    def ones_like(
        self,
        reference: Any,
        *,
        shape: Sequence[int] | None = None,
        dtype: Any = bool,
        module: Any = None,
    ) -> Any:
        """Return an array of ones on the device of another array."""
        shape = tuple(reference.shape if shape is None else shape)
        ones = numpy.ones(shape, numpy.dtype(self.dtype_name(dtype)))
        return _core.convert(ones, self.name, device=self.device_of(reference), copy=True)

    def logical_and(self, left: Any, right: Any, module: Any = None) -> Any:
        """Return, for each element, whether both are true."""
        return self._namespace(left).logical_and(left, right)

    max = _reduction("amax", "reduce_max", "Return the largest elements along axes.")
    min = _reduction("amin", "reduce_min", "Return the smallest elements along axes.")
    mean = _reduction("mean", "reduce_mean", "Return the means along axes.")
    sum = _reduction("sum", "reduce_sum", "Return the sums along axes.")

    def prepend_axis(self, data: Any) -> Any:
        """Return an array with a new first axis of length 1."""
        return self.reshape(data, (1, *data.shape))

    def _namespace(self, data: Any) -> Any:
        """The module with the functions of arrays."""
        if self.name == "pyclesperanto":
            raise NotImplementedError(
                "pyclesperanto has no such function of arrays; convert the array to another "
                "framework before"
            )
        return self.module.numpy if self.name == "jax" else self.module

    # -- Calls ------------------------------------------------------------------------------------

    def is_oom_error(self, error: BaseException) -> bool:
        """Return whether an exception means that the framework ran out of memory."""
        return bool(is_oom_error(error, self.name))

    def run_with_oom_recovery(
        self, func: Callable[[], Any], max_retries: int = 2, device: Any = None
    ) -> Any:
        """Call a function, and again with cleared caches while it runs out of memory."""
        return execute_with_oom_recovery(func, self.name, max_retries)

    def cleanup_loaded(self, device: Device | int | None = None) -> None:
        """Clear the caches of the framework, on one accelerator or on all."""
        _core.cleanup_framework(_index(device), memory_type=self.name)

    @staticmethod
    def cleanup_all_loaded(device: Device | int | None = None) -> None:
        """Clear the caches of all frameworks."""
        _core.cleanup_all_gpu_frameworks(_index(device))


class _Unavailable(DeviceUnavailableError, ValueError):
    """The original package raises ``ValueError``."""


@contextmanager
def _selected_device(module: Any, index: int) -> Iterator[None]:
    """Select a device of pyclesperanto, and the one before at the end."""
    before = module.get_device().name
    module.select_device(index, "all")
    try:
        yield
    finally:
        module.select_device(before, "all")


def _index(device: Device | int | None) -> Device | int | None:
    return device.index if isinstance(device, AcceleratorDevice) else device


def _device(device: Device | int | None) -> Device:
    if device is None:
        return HOST
    return device if isinstance(device, Device) else AcceleratorDevice(device)


_MORE_MODULES = {"jax": ("jaxlib",)}
_LIBRARIES: dict[str, ArrayLibrary] = {}


def _add(framework: dict[str, Any]) -> None:
    _FRAMEWORKS[framework["name"]] = framework
    _LIBRARIES[framework["name"]] = ArrayLibrary(framework["name"])


_tables.each(_add)
ArrayLibrary.__registry__ = _LIBRARIES
