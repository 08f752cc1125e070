"""Bounded histories of sampled metrics, thinned with age, frozen views for readers."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from llmprof.core.devices.merge import merge_card
from llmprof.core.events import CardProcess, CardSample

CAPACITY = 16_384  # points kept: over an hour at 4 Hz before the older half is thinned


OTHERS_KEPT = 256  # changes of the other processes on a card


class Series:
    """One metric over time; unknown readings are kept as gaps."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times = array("q")
        self._values = array("d")

    def append(self, t: int, value: float | None) -> None:
        """Take a reading, thinning the older half to every second point when full."""
        if len(self._times) >= self._capacity:
            half = self._capacity // 2
            # New arrays: views that are out keep the old ones.
            self._times = self._times[:half:2] + self._times[half:]
            self._values = self._values[:half:2] + self._values[half:]
        self._values.append(math.nan if value is None else value)
        self._times.append(t)

    def view(self) -> SeriesView:
        """The readings so far."""
        return SeriesView(self._times, self._values, len(self._times))


@dataclass(frozen=True, eq=False)
class SeriesView:
    """The first `length` readings of a series; NaN marks an unknown one."""

    _times: array[int] = field(default_factory=lambda: array("q"))
    _values: array[float] = field(default_factory=lambda: array("d"))
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def points(self, since: int | None = None) -> tuple[list[int], list[float]]:
        """Times (monotonic ns) and values from `since` on, gaps as NaN."""
        first = 0 if since is None else bisect_left(self._times, since, 0, self._length)
        return (
            self._times[first : self._length].tolist(),
            self._values[first : self._length].tolist(),
        )

    def between(self, start: int, end: int) -> list[float]:
        """Known values read from start to end, both monotonic ns."""
        first = bisect_left(self._times, start, 0, self._length)
        last = bisect_left(self._times, end, 0, self._length)
        return [value for value in self._values[first:last] if not math.isnan(value)]

    @property
    def last(self) -> float | None:
        """The newest reading, None when unknown."""
        value = self._values[self._length - 1] if self._length else math.nan
        return None if math.isnan(value) else value


class CardHistory:
    """All metrics of one card."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}
        self._last: CardSample | None = None
        self._others: tuple[tuple[int, tuple[CardProcess, ...]], ...] = ()

    @property
    def last(self) -> CardSample | None:
        """The newest known state: a sample holds only what was due."""
        return self._last

    def append(self, t: int, card: CardSample) -> None:
        """Take one sample of the card."""
        self._last = card if self._last is None else merge_card(self._last, card)
        # Of a card that does not answer all is unknown, not only what was due.
        changed = card.metrics if card.state == "ok" else self._last.metrics
        for name, metric in changed.items():
            self._series.setdefault(name, Series()).append(t, metric.value)
        if card.processes is not None:
            self._note_others(t, tuple(p for p in card.processes if not p.ours))

    def _note_others(self, t: int, others: tuple[CardProcess, ...]) -> None:
        before = self._others[-1][1] if self._others else ()
        if {p.pid for p in others} != {p.pid for p in before}:
            self._others = (*self._others[1 - OTHERS_KEPT :], (t, others))

    def view(self) -> CardHistoryView:
        """The history so far."""
        views = {name: series.view() for name, series in self._series.items()}
        return CardHistoryView(self._last, views, self._others)


@dataclass(frozen=True, eq=False)
class CardHistoryView:
    """A card's newest known state and its histories by metric name.

    others holds the processes of others from each time on at which they changed.
    """

    last: CardSample | None
    series: dict[str, SeriesView]
    others: tuple[tuple[int, tuple[CardProcess, ...]], ...] = ()
