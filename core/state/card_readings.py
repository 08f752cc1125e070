"""What readings come to over a stretch of time, reduced as they come; nothing grows with them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from llmprof.core.events import CardProcess, throttle
from llmprof.core.state import time_spans as iv

STATE_HOLDS_NS = 1_000_000_000  # a throttle reading says nothing of later than this
WORK_HOLDS_NS = 4_000_000_000  # a reading of other processes says nothing of earlier than this
BRIEF_NS = 3_000_000_000  # processes are read every two seconds
MOST_TENANTS = 64  # other processes that are kept of one case
Reading = tuple[int, float]  # CLOCK_MONOTONIC ns and a value, NaN when unknown
ProcessChange = tuple[int, tuple[CardProcess, ...]]


@dataclass
class Tally:
    """Count, sum and extremes of known readings."""

    n: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def take(self, values: Sequence[float]) -> None:
        """Further readings, none of them NaN."""
        if values:
            self.n += len(values)
            self.total += math.fsum(values)
            self.low, self.high = min(self.low, *values), max(self.high, *values)

    @property
    def mean(self) -> float | None:
        """None without a reading."""
        return self.total / self.n if self.n else None


@dataclass
class Counter:
    """The longest unbroken run of a counter: an unknown reading or a reset ends one."""

    first: Reading | None = None
    last: Reading | None = None
    best: tuple[Reading, Reading] | None = None

    def take(self, readings: Iterable[Reading]) -> None:
        """Further readings in order."""
        for t, value in readings:
            if math.isnan(value):
                self.first = self.last = None
                continue
            if self.first is None or self.last is None or value < self.last[1]:
                self.first = t, value
            self.last = t, value
            if self.best is None or t - self.first[0] > self.best[1][0] - self.best[0][0]:
                self.best = self.first, self.last

    def rate(self) -> tuple[float, float] | None:
        """What it rose by a second, and the seconds that this is over; None when it did not."""
        if self.best is None:
            return None
        (start, low), (end, high) = self.best
        if end == start or high <= low:
            return None
        return (high - low) / ((end - start) / 1e9), (end - start) / 1e9


@dataclass
class Integral:
    """A sampled value over time by the trapezoid rule, unknown readings passed over."""

    first: int | None = None
    last: Reading | None = None
    area: float = 0.0  # value x seconds
    readings: Tally = field(default_factory=Tally)

    def take(self, readings: Iterable[Reading]) -> None:
        """Further readings in order."""
        known = [(t, value) for t, value in readings if not math.isnan(value)]
        self.readings.take([value for _, value in known])
        for t, value in known:
            if self.first is None or self.last is None:
                self.first = t
            else:
                self.area += (t - self.last[0]) / 1e9 * (value + self.last[1]) / 2
            self.last = t, value

    def copy(self) -> Integral:
        """The same, going on apart."""
        return replace(self, readings=copy.copy(self.readings))

    @property
    def mean(self) -> float | None:
        """Time-weighted; None before two readings."""
        if self.first is None or self.last is None or self.last[0] == self.first:
            return None
        return self.area / ((self.last[0] - self.first) / 1e9)


@dataclass
class Throttling:
    """Time with a harmful reason: a reading holds until the next one, at most a second."""

    held: Reading | None = None  # the newest, whose end is not known yet
    known_ns: int = 0
    harmful_ns: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # reason -> ns

    def take(
        self, readings: Iterable[Reading], start: int, end: int, until: int
    ) -> list[iv.Interval]:
        """Further readings within a block, all that there are up to `until`; harmful spans."""
        spans: list[iv.Interval] = []
        for t, mask in readings:
            spans += self._settle(t, start, end)
            self.held = t, mask
        if self.held is not None and self.held[0] + STATE_HOLDS_NS <= until:
            spans += self._settle(until, start, end)
        return spans

    def copy(self) -> Throttling:
        """The same, going on apart."""
        return replace(self, reasons=dict(self.reasons))

    def _settle(self, following: int, start: int, end: int) -> list[iv.Interval]:
        if self.held is None:
            return []
        (t, mask), self.held = self.held, None
        span = t, min(following, t + STATE_HOLDS_NS)
        if math.isnan(mask):
            return []
        shared = iv.overlap_ns([span], start, end)
        names = throttle.harmful(int(mask))
        self.known_ns += shared
        if not names:
            return []
        self.harmful_ns += shared
        for name in names if shared else ():
            self.reasons[name] = self.reasons.get(name, 0) + shared
        return [span]


@dataclass
class Work:
    """When others used a card, or may have: a reading holds back to the last, at most four s."""

    last: int | None = None

    def take(self, readings: Iterable[tuple[int, float, float]]) -> list[iv.Interval]:
        """Further readings (time, processes of others, their share); spans with their work."""
        spans = []
        for t, count, share in readings:
            before = t - WORK_HOLDS_NS if self.last is None else self.last
            if count > 0 and share != 0:
                spans.append((max(before, t - WORK_HOLDS_NS), t))
            self.last = t
        return spans


@dataclass
class Tenants:
    """The processes of others that were on a card, each once.

    A nameless pid of one reading is left out: a process that ended while it was looked up.
    """

    found: dict[tuple[int | None, str | None], CardProcess] = field(default_factory=dict)
    more: bool = False  # there were more than are kept
    held: ProcessChange | None = None  # the newest change, whose end is not known yet

    def take(
        self, changes: Iterable[ProcessChange], start: int, end: int | None, *, final: bool
    ) -> None:
        """The changes kept so far, those taken before among them."""
        taken = -1 if self.held is None else self.held[0]
        for change in changes:
            if change[0] > taken:
                self._settle(change[0], start, end)
                self.held = change
        if final:
            self._settle(None, start, end)

    def copy(self) -> Tenants:
        """The same, going on apart."""
        return replace(self, found=dict(self.found))

    def _settle(self, following: int | None, start: int, end: int | None) -> None:
        if self.held is None:
            return
        t, processes = self.held
        if (end is not None and t >= end) or (following is not None and following <= start):
            return
        brief = following is not None and following - t < BRIEF_NS
        for process in processes:
            key = process.pid, process.command
            if brief and not process.local and process.command is process.user is None:
                continue
            if key in self.found or len(self.found) < MOST_TENANTS:
                self.found[key] = process
            else:
                self.more = True
