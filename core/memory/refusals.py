"""What an allocator says when it has no room."""

from __future__ import annotations

import re

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+) (bytes|KiB|MiB|GiB|TiB)")
_REFUSED = (
    "out of memory",
    "OutOfMemoryError",
    "MemoryError",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator",
    "can't allocate memory",
)


def says_out_of_memory(text: str) -> bool:
    """Whether the text of an error is that of an allocator without room."""
    return any(mark in text for mark in _REFUSED)


def bytes_asked(message: str) -> int | None:
    """Bytes of the allocation that failed, read from an allocator's message."""
    match = _ASKED.search(message)
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])
