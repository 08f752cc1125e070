"""The sampler without a run: its samples reduced to the same state that a run has."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import apply_line

CHECK_S = 1.0


class Watch:
    """Follows a sampler process; view() has its cards, host and histories, bounded in memory."""

    def __init__(
        self, sampler: SamplerProcess, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sampler = sampler
        self._reducer = Reducer()
        self._clock = clock
        self._checked = clock()

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Take what has come, waiting up to timeout_s for it; False when nothing had."""
        if timeout_s:
            select.select([self._sampler.fd], [], [], timeout_s)
        lines = self._sampler.read()
        for line in lines.splitlines():
            apply_line(self._reducer, line)
        return self._look_after() or bool(lines)

    def view(self) -> RunView:
        """What is known now."""
        return self._reducer.view()

    @property
    def recording(self) -> str:
        """This is none."""
        return ""

    def show_activity(self, on: bool) -> None:
        """Have the activity counters read while they are looked at."""
        self._sampler.show_activity(on)

    def close(self) -> None:
        """End the sampler."""
        self._sampler.close()

    def _look_after(self) -> bool:
        now = self._clock()
        if now - self._checked < CHECK_S:
            return False
        self._checked = now
        events = self._sampler.check()
        for event in events:
            self._reducer.apply(event)
        return bool(events)
