"""A source that needs no card: samples recorded from a real one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.source import Clock
from llmprof.core.events.merge import merge


class ReplaySource:
    """Plays a recording at the pace of its own clock, from the first poll on, in a loop.

    Each poll gives the samples that came due since the last one, merged into one; t is now.
    """

    def __init__(
        self, samples: Sequence[ev.DeviceSample], clock: Clock = time.monotonic_ns
    ) -> None:
        if not samples:
            raise ValueError("the recording holds no samples")
        self._samples = samples
        self._clock = clock
        self._start: int | None = None
        self._at = 0

    def poll(self) -> ev.DeviceSample:
        """What the recording shows now."""
        now = self._clock()
        first = self._samples[0].t
        if self._start is None or self._at >= len(self._samples):
            self._start, self._at = now, 0
        due = first + now - self._start
        sample = self._samples[self._at]
        self._at += 1
        while self._at < len(self._samples) and self._samples[self._at].t <= due:
            sample = merge(sample, self._samples[self._at])
            self._at += 1
        return msgspec.structs.replace(sample, t=now)

    def catch_up(self) -> None:
        """Nothing is costly here."""

    def show_activity(self, on: bool) -> None:
        """A recording shows what it holds."""

    def close(self) -> None:
        """Nothing is open."""


def load_recording(path: Path) -> ReplaySource:
    """A replay of the device samples in a file of JSON lines; other lines are passed over.

    Raises OSError when it cannot be read and ValueError when it holds no sample.
    """
    return ReplaySource(read_recording(path))


def read_recording(path: Path) -> list[ev.DeviceSample]:
    """The device samples in a file of JSON lines. Raises OSError."""
    samples = []
    for line in path.read_bytes().splitlines():
        try:
            event = ev.decode(line)
        except (msgspec.DecodeError, ValueError):
            continue
        if isinstance(event, ev.DeviceSample):
            samples.append(event)
    return samples
