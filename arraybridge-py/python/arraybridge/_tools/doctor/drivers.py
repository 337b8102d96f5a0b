"""Report the drivers of this machine: CUDA's by NVML and the driver library, and OpenCL's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from ..child import reporter

__all__ = ["cuda", "opencl"]

NVML, CUDA, OPENCL = (
    ("nvml.dll", "nvcuda.dll", "OpenCL.dll")
    if sys.platform == "win32"
    else ("libnvidia-ml.so.1", "libcuda.so.1", "libOpenCL.so.1")
)
CL_DEVICE_TYPES = {2: "CPU", 4: "GPU", 8: "accelerator"}


def _call(function: Any, *arguments: Any) -> None:
    status = function(*arguments)
    if status:
        raise RuntimeError(f"{function.__name__} failed with status {status}")


def cuda() -> dict[str, Any]:
    """The CUDA driver, and the GPUs that it finds.

    Without a driver there is only a ``reason``.
    """
    try:
        driver = ctypes.CDLL(CUDA)
    except OSError as error:
        return {"devices": [], "reason": f"no CUDA driver: {error}"}
    found: dict[str, Any] = {"devices": []}
    status = driver.cuInit(0)
    if status:
        # 100: no device. Anything else is a driver that does not work.
        why = "the CUDA driver finds no GPU" if status == 100 else f"cuInit failed: {status}"
        return {**found, "reason": why, "broken": status != 100}
    version = ctypes.c_int()
    _call(driver.cuDriverGetVersion, ctypes.byref(version))
    found["cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    try:
        found.update(_nvml(ctypes.CDLL(NVML)))
    except (OSError, RuntimeError) as error:
        found["reason"] = str(error)
    return found


def _nvml(nvml: ctypes.CDLL) -> dict[str, Any]:
    _call(nvml.nvmlInit_v2)
    text = ctypes.create_string_buffer(96)
    _call(nvml.nvmlSystemGetDriverVersion, text, len(text))
    found: dict[str, Any] = {"driver": text.value.decode(), "devices": []}
    count = ctypes.c_uint()
    _call(nvml.nvmlDeviceGetCount_v2, ctypes.byref(count))
    for index in range(count.value):
        handle = ctypes.c_void_p()
        memory = (ctypes.c_uint64 * 3)()  # total, free, used
        _call(nvml.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(handle))
        _call(nvml.nvmlDeviceGetName, handle, text, len(text))
        device = {"index": index, "name": text.value.decode()}
        # The whole of a GPU that is divided into instances does not say how much is free.
        if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
            device |= {"memory_total": memory[0], "memory_free": memory[1]}
        found["devices"].append(device)
    return found


def opencl() -> dict[str, Any]:
    """The OpenCL platforms and their devices, or the ``reason`` that there are none."""
    try:
        cl = ctypes.CDLL(OPENCL)
    except OSError as error:
        return {"platforms": [], "reason": f"no OpenCL loader: {error}"}
    platforms = [
        {
            "name": _text(cl.clGetPlatformInfo, platform, 0x0902),
            "version": _text(cl.clGetPlatformInfo, platform, 0x0901),
            "devices": [_cl_device(cl, device) for device in _cl_devices(cl, platform)],
        }
        for platform in _listed(cl.clGetPlatformIDs)
    ]
    if not platforms:
        return {"platforms": [], "reason": "the OpenCL loader finds no platform"}
    return {"platforms": platforms}


def _listed(function: Any, *arguments: Any) -> list[ctypes.c_void_p]:
    count = ctypes.c_uint()
    # -1: no such device. -1001: no platform.
    if function(*arguments, 0, None, ctypes.byref(count)) or not count.value:
        return []
    found = (ctypes.c_void_p * count.value)()
    _call(function, *arguments, count.value, found, None)
    return [ctypes.c_void_p(each) for each in found]


def _cl_devices(cl: ctypes.CDLL, platform: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    return _listed(cl.clGetDeviceIDs, platform, ctypes.c_uint64(0xFFFFFFFF))


def _cl_device(cl: ctypes.CDLL, device: ctypes.c_void_p) -> dict[str, Any]:
    kind, memory = ctypes.c_uint64(), ctypes.c_uint64()
    for number, value in ((0x1000, kind), (0x101F, memory)):
        cl.clGetDeviceInfo(device, number, ctypes.c_size_t(8), ctypes.byref(value), None)
    return {
        "name": _text(cl.clGetDeviceInfo, device, 0x102B),
        "driver": _text(cl.clGetDeviceInfo, device, 0x102D),
        "type": next((text for bit, text in CL_DEVICE_TYPES.items() if kind.value & bit), "other"),
        "memory_total": memory.value,
    }


def _text(function: Any, of: ctypes.c_void_p, number: int) -> str:
    buffer = ctypes.create_string_buffer(1024)
    size = ctypes.c_size_t(len(buffer))
    _call(function, of, number, size, buffer, None)
    return " ".join(buffer.value.decode(errors="replace").split())


DRIVERS: dict[str, Callable[[], dict[str, Any]]] = {"cuda": cuda, "opencl": opencl}

if __name__ == "__main__":
    reporter()(**DRIVERS[sys.argv[1]]())
