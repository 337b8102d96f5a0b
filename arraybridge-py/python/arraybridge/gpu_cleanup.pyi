from collections.abc import Callable
from typing import Final

from . import cleanup_all_gpu_frameworks as cleanup_all_gpu_frameworks

__all__ = [
    "MEMORY_TYPE_CLEANUP_REGISTRY",
    "cleanup_all_gpu_frameworks",
    # tables
    "cleanup_numpy_gpu",
    "cleanup_cupy_gpu",
    "cleanup_torch_gpu",
    "cleanup_tensorflow_gpu",
    "cleanup_jax_gpu",
    "cleanup_pyclesperanto_gpu",
    # end of tables
]

MEMORY_TYPE_CLEANUP_REGISTRY: Final[dict[str, Callable[..., dict[str, list[int]]]]]

# tables
def cleanup_numpy_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of NumPy, like ``cleanup_all_gpu_frameworks``."""

def cleanup_cupy_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of CuPy, like ``cleanup_all_gpu_frameworks``."""

def cleanup_torch_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of PyTorch, like ``cleanup_all_gpu_frameworks``."""

def cleanup_tensorflow_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of TensorFlow, like ``cleanup_all_gpu_frameworks``."""

def cleanup_jax_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of JAX, like ``cleanup_all_gpu_frameworks``."""

def cleanup_pyclesperanto_gpu(device_id: int | None = None) -> dict[str, list[int]]:
    """Clear the device memory caches of pyclesperanto, like ``cleanup_all_gpu_frameworks``."""

# end of tables
