from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from typing_extensions import TypeVar

__all__ = [
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SUPPORTED_MEMORY_TYPES",
    "ArrayLike",
    "Converter",
    "MemoryType",
]

_Array = TypeVar("_Array", default=Any)

ArrayLike = _Array | Any
"""The annotation of a parameter that takes arrays of all frameworks.

``ArrayLike[torch.Tensor]`` is a ``torch.Tensor`` in the function, since the declaration converts
the argument, and anything in its calls. Type checkers accept ``f(numpy.zeros(3))`` then.

>>> import numpy, arraybridge
>>> @arraybridge.numpy
... def doubled(image: arraybridge.ArrayLike[numpy.ndarray]) -> numpy.ndarray:
...     return image * 2
>>> doubled(numpy.ones(2))
array([2., 2.])
"""

class Converter:
    source: str
    def __init__(self, source: str) -> None: ...
    @property
    def memory_type(self) -> str: ...
    # tables
    def to_numpy(self, data: Any, gpu_id: int | None = None) -> Any: ...
    def to_cupy(self, data: Any, gpu_id: int | None = None) -> Any: ...
    def to_torch(self, data: Any, gpu_id: int | None = None) -> Any: ...
    def to_tensorflow(self, data: Any, gpu_id: int | None = None) -> Any: ...
    def to_jax(self, data: Any, gpu_id: int | None = None) -> Any: ...
    def to_pyclesperanto(self, data: Any, gpu_id: int | None = None) -> Any: ...
    # end of tables

class MemoryType(StrEnum):
    # tables
    NUMPY = "numpy"
    CUPY = "cupy"
    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    PYCLESPERANTO = "pyclesperanto"
    # end of tables
    @property
    def converter(self) -> Converter: ...
    def __getattr__(self, name: str) -> Any: ...
    @classmethod
    def subprocess_environment(
        cls, environment: Mapping[str, str] | None = None
    ) -> dict[str, str]: ...

CPU_MEMORY_TYPES: Final[frozenset[MemoryType]]
"""The frameworks whose arrays are in host memory only, as members of ``MemoryType``.

>>> import arraybridge
>>> "numpy" in arraybridge.CPU_MEMORY_TYPES, "torch" in arraybridge.CPU_MEMORY_TYPES
(True, False)
"""
GPU_MEMORY_TYPES: Final[frozenset[MemoryType]]
"""The frameworks whose arrays can be on an accelerator, as members of ``MemoryType``.

The set depends on the frameworks, not on the machine: it is the same without a GPU.

>>> import arraybridge
>>> "numpy" in arraybridge.GPU_MEMORY_TYPES, "torch" in arraybridge.GPU_MEMORY_TYPES
(False, True)
"""
SUPPORTED_MEMORY_TYPES: Final[frozenset[MemoryType]]
"""All frameworks that are known, as members of ``MemoryType``.

>>> import arraybridge
>>> arraybridge.SUPPORTED_MEMORY_TYPES == {*arraybridge.MemoryType}
True
"""
