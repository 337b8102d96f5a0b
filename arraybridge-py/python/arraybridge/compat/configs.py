"""Values of ``dtype_config=``, and descriptions of the keywords that decorators add."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core import _declare  # type: ignore[import-not-found]
from ..dtype_scaling import DtypeConversion

try:
    # OpenHCS takes its subclasses only. The original package depends on it.
    from python_introspect import RuntimeParameterDeclarationABC as _Keyword
except ImportError:
    _Keyword = ABC

__all__ = [
    "PRESERVE_INPUT_DTYPE_CONFIG",
    "DtypeConversion",
    "DtypeConversionConfig",
    "PreserveInputDtypeConfig",
    "SliceBySliceRuntimeParameter",
]


class _Described(_Keyword):  # type: ignore[misc]
    """A keyword by its name, the value in calls without it, and its type."""

    _described: Callable[[], tuple[str, Any, Any]]

    @classmethod
    def require_parameter_name(cls) -> str:
        """The name of the keyword."""
        return cls._described()[0]

    @classmethod
    def default_value(cls) -> Any:
        """The value in calls without the keyword."""
        return cls._described()[1]

    @classmethod
    def annotation_type(cls) -> type:
        """The type of the keyword."""
        return cls._described()[2]

    @classmethod
    def parameter(cls, *, default_value: Any = None) -> inspect.Parameter:
        """The keyword as a parameter of a signature."""
        name, default, annotation = cls._described()
        default = default if default_value is None else default_value
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=default, annotation=annotation)


class DtypeConversionConfig(_Described):
    """A value of ``dtype_config=``: an object that determines the dtype of a result."""

    @staticmethod
    def _described() -> tuple[str, Any, Any]:
        return "dtype_config", PRESERVE_INPUT_DTYPE_CONFIG, DtypeConversionConfig

    @property
    @abstractmethod
    def default_dtype_conversion(self) -> DtypeConversion:
        """The dtype of the result."""


class SliceBySliceRuntimeParameter(_Described):
    """The keyword ``slice_by_slice``."""

    # Pipelines pass it on to the functions that they run.
    preserve_for_execution = True
    is_semantic_control = True

    @staticmethod
    def _described() -> tuple[str, Any, Any]:
        return "slice_by_slice", False, bool


@dataclass(frozen=True, slots=True)
class PreserveInputDtypeConfig(DtypeConversionConfig):
    """Results get the dtype of the first array argument."""

    default_dtype_conversion: DtypeConversion = DtypeConversion.PRESERVE_INPUT


PRESERVE_INPUT_DTYPE_CONFIG = PreserveInputDtypeConfig()


ANNOTATIONS = {
    each.require_parameter_name(): each.annotation_type()
    for each in (SliceBySliceRuntimeParameter, DtypeConversionConfig)
}
"""The types of the keywords in the signatures that OpenHCS reads."""


def _create_dtype_wrapper(
    func: Callable[..., Any], mem_type: str, func_name: str | None = None
) -> Callable[..., Any]:
    """Declare a function for ``mem_type``, without retries."""
    return _declare(func, mem_type, {"oom_recovery": False})
