"""Describe a framework by its own facts: its build, its devices and their memory.

The facts are for the readers of the report. Only use shows if a device works.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["DETAILS"]


def _device(index: int, name: Any, **memory: int | None) -> dict[str, Any]:
    sizes = {f"memory_{key}": size for key, size in memory.items()}
    return {"id": f"accelerator:{index}", "name": str(name), **sizes}


def _cupy(cupy: ModuleType) -> dict[str, Any]:
    runtime = cupy.cuda.runtime
    build = f"CUDA runtime {_cuda(runtime.runtimeGetVersion())}"
    devices = []
    for index in range(runtime.getDeviceCount()):
        with cupy.cuda.Device(index) as device:
            free, total = device.mem_info
            pooled = cupy.get_default_memory_pool().total_bytes()
        name = runtime.getDeviceProperties(index)["name"].decode()
        devices.append(_device(index, name, total=total, free=free, pooled=pooled))
    return {"build": build, "devices": devices}


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _torch(torch: ModuleType) -> dict[str, Any]:
    version = torch.version.cuda
    if version is None:
        return {"build": "without CUDA", "devices": []}
    if not torch.cuda.is_available():
        return {"build": f"CUDA {version}", "devices": [], "no_device": _refusal(torch.cuda.init)}
    devices = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        pooled = torch.cuda.memory_reserved(index)
        name = torch.cuda.get_device_name(index)
        devices.append(_device(index, name, total=total, free=free, pooled=pooled))
    return {"build": f"CUDA {version}", "devices": devices}


def _refusal(call: Callable[[], Any]) -> str:
    """The first line of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ""


def _tensorflow(tensorflow: ModuleType) -> dict[str, Any]:
    build = tensorflow.sysconfig.get_build_info()
    cuda = build.get("cuda_version", "") if build.get("is_cuda_build") else None
    devices = []
    for index, device in enumerate(tensorflow.config.list_physical_devices("GPU")):
        about = tensorflow.config.experimental.get_device_details(device)
        memory = tensorflow.config.experimental.get_memory_info(f"GPU:{index}")
        name = about.get("device_name", device.name)
        devices.append(_device(index, name, pooled=memory.get("current")))
    return {
        "build": "without CUDA" if cuda is None else f"CUDA {cuda}",
        "devices": devices,
        "settings": {"soft_device_placement": tensorflow.config.get_soft_device_placement()},
    }


def _jax(jax: ModuleType) -> dict[str, Any]:
    devices = []
    for index, device in enumerate(d for d in jax.local_devices() if d.platform != "cpu"):
        memory = device.memory_stats() or {}
        pooled = memory.get("pool_bytes", memory.get("bytes_in_use"))
        total = memory.get("bytes_limit")
        devices.append(_device(index, device.device_kind, total=total, pooled=pooled))
    refusal = "" if devices else _refusal(lambda: jax.local_devices(backend="gpu"))
    return {
        "build": f"backend {jax.default_backend()}",
        "devices": devices,
        "no_device": refusal,
        "settings": {"jax_enable_x64": bool(jax.config.jax_enable_x64)},
    }


def _pyclesperanto(cle: ModuleType) -> dict[str, Any]:
    devices = []
    for index, name in enumerate(cle.list_available_devices("all")):
        info = str(cle.select_device(index, "all").info)
        rows = [line.partition(":") for line in info.splitlines()]
        found = {key.strip(): value.strip() for key, _, value in rows}
        memory = found.get("Global Memory Size", "").removesuffix(" MB")
        total = int(memory) * 2**20 if memory.isdigit() else None
        devices.append(_device(index, name, total=total))
    return {"build": "", "devices": devices}


DETAILS: dict[str, Callable[[ModuleType], dict[str, Any]]] = {
    "cupy": _cupy,
    "torch": _torch,
    "tensorflow": _tensorflow,
    "jax": _jax,
    "pyclesperanto": _pyclesperanto,
}
