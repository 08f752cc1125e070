"""The sampler's loop: poll, hand on, catch up, sleep; slower when polling is costly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from llmprof.core.devices.source import SampleSource
from llmprof.core.events import DeviceSample

INTERVAL_S = 0.25
MIN_INTERVAL_S = 0.05
MAX_INTERVAL_S = 30.0
POLLING_SHARE = 0.1  # polling may take this share of the time, then the interval grows
_SMOOTHING = 0.3  # weight of the newest poll in the running mean of costs


class Sampler:
    """Polls a source every interval_s until stopped or until emit says False."""

    def __init__(
        self,
        source: SampleSource,
        emit: Callable[[DeviceSample], bool],
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._emit = emit
        self._asked_s = min(max(interval_s, MIN_INTERVAL_S), MAX_INTERVAL_S)
        self._clock = clock
        self._cost_s = 0.0
        self._stop = threading.Event()

    @property
    def interval_s(self) -> float:
        """Seconds from one poll to the next: as asked, longer while polling is costly."""
        return min(max(self._asked_s, self._cost_s / POLLING_SHARE), MAX_INTERVAL_S)

    def stop(self) -> None:
        """End the loop; safe from another thread."""
        self._stop.set()

    def step(self) -> bool:
        """One poll; False when nobody takes samples any more."""
        start = self._clock()
        going = self._emit(self._source.poll())
        self._source.catch_up()
        self._note_cost(self._clock() - start)
        return going

    def run(self) -> None:
        """Poll until stopped, on a fixed grid; a late poll is not made up for."""
        due = self._clock()
        while not self._stop.is_set() and self.step():
            now = self._clock()
            due = max(due + self.interval_s, now)
            self._stop.wait(due - now)

    def _note_cost(self, cost_s: float) -> None:
        if self._cost_s == 0.0:
            # The first poll reads everything once and says little about the others.
            self._cost_s = min(cost_s, self._asked_s * POLLING_SHARE)
        else:
            self._cost_s += _SMOOTHING * (cost_s - self._cost_s)
