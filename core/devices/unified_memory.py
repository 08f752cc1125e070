"""Cards whose memory is the host's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

from llmprof.core.events import CardProcess, Metric

# A part of their names: NVML has no flag for it.
UNIFIED_NAMES = ("gb10", "thor", "orin", "xavier", "tegra")


def shares_host_memory(name: str) -> bool:
    """Whether a card of this name has no memory of its own."""
    return any(part in name.lower() for part in UNIFIED_NAMES)


def unified_memory(processes: Iterable[CardProcess]) -> dict[str, Metric]:
    """What its processes hold, and the host's total, bytes."""
    metrics = {}
    sizes = [process.memory_bytes for process in processes]
    if None in sizes:
        metrics["memory_used"] = Metric(None, "the driver does not tell it of every process")
    else:
        metrics["memory_used"] = Metric(float(sum(size or 0 for size in sizes)))
    with contextlib.suppress(psutil.Error, OSError):
        metrics["memory_total"] = Metric(float(psutil.virtual_memory().total))
    return metrics
