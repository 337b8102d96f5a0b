"""Attributes of declared functions, and dtype policies for functions that convert nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, MutableMapping
from enum import StrEnum
from typing import Any

from .. import _core  # type: ignore[attr-defined]
from ..types import MemoryType
from .configs import DtypeConversionConfig, SliceBySliceRuntimeParameter
from .payloads import ArrayPayload

__all__ = ["MemoryContractAttribute", "wrap_dtype_preserving_callable"]


class MemoryContractAttribute(StrEnum):
    """Names of the attributes that a declared function has.

    >>> import arraybridge
    >>> doubled = arraybridge.numpy(lambda image: image * 2)
    >>> arraybridge.MemoryContractAttribute.INPUT.read(doubled)
    'numpy'
    """

    INPUT = "input_memory_type"
    OUTPUT = "output_memory_type"
    EXECUTION = "execution_memory_type"

    def read(self, namespace: Any, default: Any = None) -> str | None:
        """Return the attribute of an object, or the item of a mapping.

        Raises ``TypeError`` if it is not a framework's name.
        """
        if isinstance(namespace, Mapping):
            value = namespace.get(self.value, default)
        else:
            value = getattr(namespace, self.value, default)
        if value is None or isinstance(value, str):
            return value
        raise TypeError(f"{self.value} of {namespace!r} is {value!r}, not a framework's name")

    def write(self, namespace: Any, value: str) -> None:
        """Set the attribute of an object, or the item of a mapping."""
        if isinstance(namespace, MutableMapping):
            namespace[self.value] = value
        else:
            setattr(namespace, self.value, value)


def wrap_dtype_preserving_callable(
    func: Callable[..., Any],
    mem_type: MemoryType | str,
    *,
    slice_by_slice_default: bool = False,
    dtype_config_default: DtypeConversionConfig | None = None,
) -> Callable[..., Any]:
    """Return a function that also takes ``slice_by_slice`` and ``dtype_config``.

    Its arguments are not converted. Its result, or the first element of a tuple, gets the dtype of
    the policy, as that of a declared function with ``dtype_config`` does: floats that become
    integers are stretched. ``ArrayPayload`` objects keep what they carry besides. Raises
    ``TypeError`` if ``dtype_config_default`` is of another class.
    """
    config_default = (
        DtypeConversionConfig.default_value()
        if dtype_config_default is None
        else dtype_config_default
    )
    if not isinstance(config_default, DtypeConversionConfig):
        raise TypeError(
            "dtype_config_default must be a DtypeConversionConfig, "
            f"not {type(config_default).__name__}"
        )
    for attribute in (MemoryContractAttribute.INPUT, MemoryContractAttribute.OUTPUT):
        # Raises for the name of a framework that does not exist.
        MemoryType(attribute.read(func) or str(mem_type))
    by_slice = SliceBySliceRuntimeParameter.require_parameter_name()
    policy = DtypeConversionConfig.require_parameter_name()
    name = getattr(func, "__name__", "function")

    @functools.wraps(func)
    def wrapped(image: Any, *args: Any, **kwargs: Any) -> Any:
        in_slices = kwargs.pop(by_slice, slice_by_slice_default)
        config = kwargs.pop(policy, config_default)
        if in_slices and getattr(image, "ndim", None) == 3:
            result = _core.process_slices(image, func, args, kwargs)
        else:
            result = func(image, *args, **kwargs)
        lead = image.array_payload_data() if isinstance(image, ArrayPayload) else image

        def finished(array: Any) -> Any:
            if isinstance(array, ArrayPayload):
                return array.map_array_payload(finished)
            if not (hasattr(array, "dtype") and hasattr(lead, "dtype")):
                return array
            return _core.finish_dtype(array, lead, dtype_conversion=config, function=name)

        if isinstance(result, tuple):
            return (*map(finished, result[:1]), *result[1:])
        return finished(result)

    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return wrapped
    added = (
        SliceBySliceRuntimeParameter.parameter(default_value=slice_by_slice_default),
        DtypeConversionConfig.parameter(default_value=config_default),
    )
    parameters = list(signature.parameters.values())
    last = parameters[-1:]
    rest = last if last and last[0].kind is inspect.Parameter.VAR_KEYWORD else []
    shown = [p for p in added if p.name not in signature.parameters]
    parameters = [*parameters[: len(parameters) - len(rest)], *shown, *rest]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped
