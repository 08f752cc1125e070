"""Figures of torch's caching allocator, as the writer journals them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllocatorFigures:
    """Bytes; the peak is since the process began, for it is never reset."""

    allocated: int
    peak: int
    reserved: int
    retries: int
