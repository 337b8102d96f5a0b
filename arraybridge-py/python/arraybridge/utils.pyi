from types import ModuleType
from typing import Any

__all__ = ["device_id", "loaded_frameworks", "optional_import"]

def device_id(array: Any) -> int | None:
    """Return the index of the accelerator that an array is on, or `None` if it is in host memory.

    Raises `UnsupportedArrayError` if the object is not an array of a known framework.

    >>> import numpy
    >>> from arraybridge.utils import device_id
    >>> device_id(numpy.zeros(3)) is None
    True
    """

def loaded_frameworks() -> list[str]:
    """Return the names of the loaded frameworks, in the order of the table.

    >>> import numpy
    >>> from arraybridge.utils import loaded_frameworks
    >>> "numpy" in loaded_frameworks()
    True
    """

def optional_import(module_name: str) -> ModuleType | Any:
    """Import a module, or return a stand-in that is falsy and raises ImportError when it is called.

    >>> from arraybridge.utils import optional_import
    >>> bool(optional_import("no_such_module"))
    False
    """
