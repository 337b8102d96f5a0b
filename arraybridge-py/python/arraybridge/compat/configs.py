"""Values of ``dtype_config=``, and descriptions of the keywords that decorators add."""

from __future__ import annotations

import importlib.util
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


class DtypeConversionConfig(_Keyword):  # type: ignore[misc]
    """A value of ``dtype_config=``: an object that determines the dtype of a result."""

    @property
    @abstractmethod
    def default_dtype_conversion(self) -> DtypeConversion:
        """The dtype of the result."""

    @classmethod
    def require_parameter_name(cls) -> str:
        """The name of the keyword."""
        return "dtype_config"

    @classmethod
    def default_value(cls) -> DtypeConversionConfig:
        """The value in calls without the keyword."""
        return PRESERVE_INPUT_DTYPE_CONFIG

    @classmethod
    def annotation_type(cls) -> type:
        """The type of the keyword."""
        return DtypeConversionConfig

    @classmethod
    def parameter(cls, *, default_value: DtypeConversionConfig | None = None) -> inspect.Parameter:
        """The keyword as a parameter of a signature."""
        return _parameter(cls, default_value)


class SliceBySliceRuntimeParameter(_Keyword):  # type: ignore[misc]
    """The keyword ``slice_by_slice``."""

    # Pipelines pass it on to the functions that they run.
    preserve_for_execution = True
    is_semantic_control = True

    @classmethod
    def require_parameter_name(cls) -> str:
        """The name of the keyword."""
        return "slice_by_slice"

    @classmethod
    def default_value(cls) -> bool:
        """The value in calls without the keyword."""
        return False

    @classmethod
    def annotation_type(cls) -> type:
        """The type of the keyword."""
        return bool

    @classmethod
    def parameter(cls, *, default_value: bool | None = None) -> inspect.Parameter:
        """The keyword as a parameter of a signature."""
        return _parameter(cls, default_value)


def _parameter(keyword: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        keyword.require_parameter_name(),
        inspect.Parameter.KEYWORD_ONLY,
        default=keyword.default_value() if default is None else default,
        annotation=keyword.annotation_type(),
    )


@dataclass(frozen=True, slots=True)
class PreserveInputDtypeConfig(DtypeConversionConfig):
    """Results get the dtype of the first array argument."""

    default_dtype_conversion: DtypeConversion = DtypeConversion.PRESERVE_INPUT


PRESERVE_INPUT_DTYPE_CONFIG = PreserveInputDtypeConfig()


_IS_FOR_OPENHCS = _Keyword is not ABC and importlib.util.find_spec("openhcs") is not None
_KEYWORDS = (DtypeConversionConfig, SliceBySliceRuntimeParameter) if _IS_FOR_OPENHCS else ()
ANNOTATIONS = {each.require_parameter_name(): each.annotation_type() for each in _KEYWORDS}
"""The types of the keywords in the signatures of functions that are declared from now on.

Pydantic takes no such signature, so it has none where OpenHCS is not installed."""


def _create_dtype_wrapper(
    func: Callable[..., Any], mem_type: str, func_name: str | None = None
) -> Callable[..., Any]:
    """Declare a function for ``mem_type``, without retries."""
    return _declare(func, mem_type, {"oom_recovery": False})
