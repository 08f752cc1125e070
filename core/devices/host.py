"""The host's own load, through psutil."""

from __future__ import annotations

import os

import psutil

from llmprof.core.events import HostSample
from llmprof.core.system.host_memory import limit_bytes


class PsutilHost:
    """CPU since the last read, memory and load now; what cannot be read is None."""

    def __init__(self) -> None:
        self._first = True

    def read(self) -> HostSample:
        """The host now. The first read has no CPU share: it needs an interval."""
        cpu = _cpu_percent()
        if self._first:
            self._first, cpu = False, None
        used, total = _memory()
        return HostSample(
            cpu_percent=cpu,
            memory_used_bytes=used,
            memory_total_bytes=total,
            memory_limit_bytes=_limit(),
            load1=_load(),
        )


def _cpu_percent() -> float | None:
    try:
        return round(psutil.cpu_percent(interval=None), 1)
    except (psutil.Error, OSError, ValueError):
        return None


def _memory() -> tuple[int | None, int | None]:
    try:
        memory = psutil.virtual_memory()
    except (psutil.Error, OSError, ValueError):
        return None, None
    return memory.total - memory.available, memory.total


def _limit() -> int | None:
    try:
        return limit_bytes()
    except (psutil.Error, OSError, ValueError):
        return None


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None
