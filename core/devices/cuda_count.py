"""`python -m llmprof.core.devices.cuda_count`: how many CUDA devices the driver shows a process.

Prints a number, "no driver", or nothing where the driver does not say. Neither torch nor NVML is
loaded: on a machine with many cards the one takes seconds, the other does not know what
CUDA_VISIBLE_DEVICES leaves.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

NO_DRIVER = "no driver"
_LIBRARY = "libcuda.so.1"
_AMD = Path("/dev/kfd")  # there torch calls cards "cuda" that no CUDA driver knows
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def count() -> int | str | None:
    """The number of devices, NO_DRIVER, or None where the driver fails otherwise."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None if _AMD.exists() else NO_DRIVER
    failed = driver.cuInit(0)
    found = ctypes.c_int()
    if not failed:
        failed = driver.cuDeviceGetCount(ctypes.byref(found))
    if failed == _NO_DEVICE:
        return 0
    return None if failed else found.value


if __name__ == "__main__":
    said = count()
    print("" if said is None else said)
