"""Exit with status 0 if the CUDA driver finds a GPU. Otherwise say why not. Needs Python only."""

from __future__ import annotations

import ctypes
import sys


def absence() -> str | None:
    """Why there is no GPU; None if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"there is no CUDA driver ({error})"
    count = ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return f"the CUDA driver reports error {status}"
    return None if count.value else "the CUDA driver finds no GPU"


def main() -> int:
    """Say it."""
    why = absence()
    if why is not None:
        print(f"No GPU: {why}. Nothing was run, and no report was written.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
