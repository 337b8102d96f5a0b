from types import ModuleType
from typing import Any

__all__ = ["device_id", "loaded_frameworks", "optional_import"]

def device_id(array: Any) -> int | None:
    """The index of the accelerator that an array is on, `None` for one in host memory.

    Raises `UnsupportedArrayError` for what is no array of a known framework.

    >>> import numpy
    >>> from arraybridge.utils import device_id
    >>> device_id(numpy.zeros(3)) is None
    True
    """

def loaded_frameworks() -> list[str]:
    """The names of the frameworks that are loaded, in the table's order.

    >>> import numpy
    >>> from arraybridge.utils import loaded_frameworks
    >>> "numpy" in loaded_frameworks()
    True
    """

def optional_import(module_name: str) -> ModuleType | Any:
    """Import a module, or get a stand-in that is false and raises ImportError when it is called."""
