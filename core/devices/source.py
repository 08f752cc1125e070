"""Where device samples come from: one narrow interface, plain values or a reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmprof.core.events import CardSample, DeviceSample, HostSample

Clock = Callable[[], int]


class SampleSource(Protocol):
    """Gives one sample a poll and never raises."""

    def poll(self) -> DeviceSample:
        """What is known now."""

    def catch_up(self) -> None:
        """Do costly readings now, after a sample was handed on; the next one carries them."""

    def show_activity(self, on: bool) -> None:
        """Ask for the metrics that are read only while somebody looks at them."""

    def close(self) -> None:
        """Let go of everything; may be called in any state, more than once."""


@dataclass(frozen=True)
class CardsNow:
    """The cards of one poll, or why there are none."""

    cards: tuple[CardSample, ...] = ()
    reason: str | None = None
    absent: tuple[str, ...] = ()  # asked for, but not of this machine


class CardReader(Protocol):
    """The part of a source that reads cards."""

    def read(self) -> CardsNow:
        """What is due now."""

    def catch_up(self) -> None:
        """Dear readings, kept for the next read."""

    def show_activity(self, on: bool) -> None:
        """Turn the activity counters on or off."""

    def close(self) -> None:
        """Let go of the library."""


class HostReader(Protocol):
    """The part of a source that reads the host."""

    def read(self) -> HostSample:
        """The host now."""


class DeviceSource:
    """Cards and host as one source, its own cost measured."""

    def __init__(
        self, cards: CardReader, host: HostReader, clock: Clock = time.monotonic_ns
    ) -> None:
        self._cards = cards
        self._host = host
        self._clock = clock
        self._late_ns = 0

    def poll(self) -> DeviceSample:
        """One sample; cost_ms includes what catch_up took since the last one."""
        start = self._clock()
        cards = self._cards.read()
        host = self._host.read()
        cost = self._clock() - start + self._late_ns
        self._late_ns = 0
        return DeviceSample(
            t=start,
            host=host,
            cards=cards.cards,
            cards_reason=cards.reason,
            cards_absent=cards.absent,
            cost_ms=round(cost / 1e6, 3),
        )

    def catch_up(self) -> None:
        """Dear readings, off the path of the sample."""
        start = self._clock()
        self._cards.catch_up()
        self._late_ns += self._clock() - start

    def show_activity(self, on: bool) -> None:
        """Turn the activity counters on or off."""
        self._cards.show_activity(on)

    def close(self) -> None:
        """Let go of the card library."""
        self._cards.close()
