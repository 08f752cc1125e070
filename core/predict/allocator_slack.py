"""What CUDA's caching allocator gives beyond what was asked for."""

from __future__ import annotations

from llmprof.core.predict.byte_levels import ByteLevel
from llmprof.core.spec.case import Case


def allocated_band(case: Case, peak: ByteLevel) -> tuple[int, int]:
    """Least and most allocated bytes at a peak."""
    return peak.rounded, peak.rounded + peak.large * (1 << 20)
