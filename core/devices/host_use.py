"""What a process takes of the host: processor time, memory, how long it has been running."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class HostUse:
    """None: not known, or not yet; a share of the processor needs two readings."""

    cpu_percent: float | None = None  # of one core
    rss_bytes: int | None = None
    running_s: float | None = None


@dataclass
class _Followed:
    process: psutil.Process
    cpu_s: float | None = None
    at_s: float = 0.0


class HostUseReader:
    """Follows processes of this machine while they are asked for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._followed: dict[int, _Followed] = {}

    def read(self, pids: Iterable[int]) -> dict[int, HostUse]:
        """Their use now; one that has ended or that may not be looked at is left out."""
        found: dict[int, HostUse] = {}
        followed: dict[int, _Followed] = {}
        for pid in pids:
            try:
                one = self._followed.get(pid) or _Followed(psutil.Process(pid))
                found[pid] = self._look(one)
            except (psutil.Error, OSError, ValueError):
                continue
            followed[pid] = one
        self._followed = followed
        return found

    def _look(self, one: _Followed) -> HostUse:
        with one.process.oneshot():
            times, now = one.process.cpu_times(), self._clock()
            rss = one.process.memory_info().rss
            begun = one.process.create_time()
        spent = times.user + times.system
        before, passed = one.cpu_s, now - one.at_s
        one.cpu_s, one.at_s = spent, now
        share = None if before is None or passed <= 0 else 100 * max(0.0, spent - before) / passed
        return HostUse(
            None if share is None else round(share, 1), rss, round(max(0.0, time.time() - begun), 1)
        )
