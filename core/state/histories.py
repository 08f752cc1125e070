"""Bounded histories of sampled metrics, frozen views for readers.

The newest readings are all kept, older ones at a spacing that is even over their whole time.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from llmprof.core.events import CardProcess, CardSample
from llmprof.core.events.merge import merge_card

NEWEST_READINGS = 8_192  # newest readings, all of them: 34 minutes at 4 Hz
READINGS_AT_ONCE = 1_024  # readings that become old at once
OLD = 7_168  # readings kept of all that came before
OTHERS_KEPT = 256  # changes of the other processes on a card


class Series:
    """One metric over time; unknown readings are kept as gaps."""

    def __init__(
        self, recent: int = NEWEST_READINGS, chunk: int = READINGS_AT_ONCE, old: int = OLD
    ) -> None:
        self._recent, self._chunk, self._most_old = recent, chunk, old
        self._times, self._values = array("q"), array("d")
        self._old_times, self._old_values = array("q"), array("d")
        self._every = 1  # of the old readings one in so many is kept
        self._aged = 0  # readings that have become old

    def append(self, t: int, value: float | None) -> None:
        """Take a reading; the oldest of the recent ones give way."""
        if len(self._times) >= self._recent + self._chunk:
            self._age()
        self._values.append(math.nan if value is None else value)
        self._times.append(t)

    def _age(self) -> None:
        first = -self._aged % self._every
        old_times = self._old_times + self._times[first : self._chunk : self._every]
        old_values = self._old_values + self._values[first : self._chunk : self._every]
        self._aged += self._chunk
        if len(old_times) > self._most_old:
            self._every *= 2
            old_times, old_values = old_times[::2], old_values[::2]
        # New arrays: views that are out keep the old ones.
        self._old_times, self._old_values = old_times, old_values
        self._times, self._values = self._times[self._chunk :], self._values[self._chunk :]

    def view(self) -> SeriesView:
        """The readings so far."""
        return SeriesView(
            self._times, self._values, len(self._times), self._old_times, self._old_values
        )


@dataclass(frozen=True, eq=False)
class SeriesView:
    """Old readings and the first `length` recent ones of a series; NaN marks an unknown one."""

    _times: array[int] = field(default_factory=lambda: array("q"))
    _values: array[float] = field(default_factory=lambda: array("d"))
    _length: int = 0
    _old_times: array[int] = field(default_factory=lambda: array("q"))
    _old_values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self._old_times) + self._length

    def points(self, since: int | None = None) -> tuple[list[int], list[float]]:
        """Times (monotonic ns) and values from `since` on, gaps as NaN."""
        first = old = 0
        if since is not None:
            first = bisect_left(self._times, since, 0, self._length)
            old = bisect_left(self._old_times, since)
        times = self._times[first : self._length].tolist()
        values = self._values[first : self._length].tolist()
        if first or old >= len(self._old_times):
            return times, values
        return (
            self._old_times[old:].tolist() + times,
            self._old_values[old:].tolist() + values,
        )

    def between(self, start: int, end: int) -> list[float]:
        """Known values read from start to end, both monotonic ns; end is not among them."""
        times, values = self.points(start)
        return [value for value in values[: bisect_left(times, end)] if not math.isnan(value)]

    @property
    def last(self) -> float | None:
        """The newest reading, None when unknown."""
        value = self._values[self._length - 1] if self._length else math.nan
        return None if math.isnan(value) else value

    @property
    def newest_known(self) -> float | None:
        """The newest reading that is known; None where none is."""
        for values, length in (
            (self._values, self._length),
            (self._old_values, len(self._old_values)),
        ):
            for at in range(length - 1, -1, -1):
                if not math.isnan(values[at]):
                    return values[at]
        return None


class CardHistory:
    """All metrics of one card."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}
        self._last: CardSample | None = None
        self._others: tuple[tuple[int, tuple[CardProcess, ...]], ...] = ()
        self._first_ns: int | None = None
        self._newest_ns = 0

    @property
    def last(self) -> CardSample | None:
        """The newest known state: a sample holds only what was due."""
        return self._last

    def append(self, t: int, card: CardSample) -> None:
        """Take one sample of the card."""
        self._newest_ns = t
        if self._first_ns is None:
            self._first_ns = t
        self._last = card if self._last is None else merge_card(self._last, card)
        # Of a card that does not answer all is unknown, not only what was due.
        changed = card.metrics if card.state == "ok" else self._last.metrics
        for name, metric in changed.items():
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = Series()
            series.append(t, metric.value)
        if card.processes is not None:
            self._note_others(t, tuple(p for p in card.processes if not p.ours))

    def _note_others(self, t: int, others: tuple[CardProcess, ...]) -> None:
        before = self._others[-1][1] if self._others else ()
        if {p.pid for p in others} != {p.pid for p in before}:
            self._others = (*self._others[1 - OTHERS_KEPT :], (t, others))

    def view(self) -> CardHistoryView:
        """The history so far."""
        views = {name: series.view() for name, series in self._series.items()}
        return CardHistoryView(
            self._last, views, self._others, self._newest_ns, self._first_ns or self._newest_ns
        )


@dataclass(frozen=True, eq=False)
class CardHistoryView:
    """A card's newest known state and its histories by metric name.

    others holds the processes of others from each time on at which they changed, the newest
    changes alone: what a case needs of them is in its tally.
    """

    last: CardSample | None
    series: dict[str, SeriesView]
    others: tuple[tuple[int, tuple[CardProcess, ...]], ...] = ()
    newest_ns: int = 0  # when it was read last
    first_ns: int = 0  # when it was read first
