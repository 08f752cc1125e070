"""A recording as if it were a machine: its samples come at the pace at which they were made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from llmprof.core.monitor.recordings import Recording
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import as_given
from llmprof.core.system.text import clock


class Playback:
    """Stands for a Watch; after the last sample the picture stands still."""

    def __init__(
        self,
        recording: Recording,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recording = recording
        self._speed = speed
        self._clock = clock
        self._samples = recording.samples()
        self._next = next(self._samples, None)
        self._reducer = Reducer()
        self._start: float | None = None
        self._at = recording.first.t
        self._closed = threading.Event()

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Take what has come due, waiting up to timeout_s for it; False when nothing had."""
        now = self._clock()
        if self._start is None:
            self._start = now
        due = self._recording.first.t + (now - self._start) * self._speed * 1e9
        came = False
        while self._next is not None and self._next.t <= due:
            self._reducer.apply(self._next)
            self._at = self._next.t
            self._next = next(self._samples, None)
            came = True
        if not came and timeout_s:
            self._closed.wait(timeout_s if self._next is None else min(timeout_s, 0.05))
        return came

    def view(self) -> RunView:
        """The machine as it was at this moment of the recording."""
        return self._reducer.view()

    @property
    def recording(self) -> str:
        """How far it has come, in a few words."""
        passed = clock(self._recording.seconds(self._at))
        words = f"recording, {passed}" if self._next is not None else f"recording ended, {passed}"
        if self._speed != 1.0:
            words += f", {as_given(self._speed)} ×"
        return words + self._recording.unreadable

    def show_activity(self, on: bool) -> None:
        """A recording shows what it holds."""

    def close(self) -> None:
        """Wait no more."""
        self._closed.set()


def whole_recording(recording: Recording) -> RunView:
    """The machine at the end of a recording, with the histories of all of it."""
    reducer = Reducer()
    for sample in recording.samples():
        reducer.apply(sample)
    return reducer.view()
