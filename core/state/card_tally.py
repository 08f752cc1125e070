"""The readings of the card that a case ran on, over that case alone."""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from llmprof.core.events import CardSample, Environment
from llmprof.core.events.matching import match
from llmprof.core.state import time_spans as iv
from llmprof.core.state.card_readings import (
    STATE_HOLDS_NS,
    WORK_HOLDS_NS,
    Counter,
    Integral,
    Reading,
    Tally,
    Tenants,
    Throttling,
    Work,
)
from llmprof.core.state.histories import CardHistoryView
from llmprof.core.state.position_ranges import Stretches
from llmprof.core.state.step_columns import StepsView

POWER_WINDOW_S = 1.0  # NVML's power reading is a 1 s average on most cards since Ampere
UTILIZATION_WINDOW_S = 1.0  # nvml.h: 1/6 s to 1 s, taken where the card does not tell its own
LEVELS = {  # metric -> seconds that one reading averages over
    "sm_clock": 0.0,
    "memory_clock": 0.0,
    "temperature": 0.0,
    "memory_used": 0.0,
    "power": POWER_WINDOW_S,
    "utilization": UTILIZATION_WINDOW_S,
    "memory_utilization": UTILIZATION_WINDOW_S,
}
CONSTANTS = ("sm_clock_max", "power_limit", "utilization_window")
HIGHEST = {"memory_used": 0, "other_memory": WORK_HOLDS_NS}  # metric -> ns before the first step
LATE_NS = WORK_HOLDS_NS  # after a case, readings that still say something of it


def environment_card(
    cards: Iterable[CardSample], environment: Environment | None
) -> CardSample | None:
    """The card that torch used, by UUID or bus id; a lone card where torch told neither."""
    if environment is None or environment.device == "cpu":
        return None
    listed = tuple(cards)
    found = match(listed, environment.device_uuid, environment.pci_bus_id)
    if found is None and environment.device_uuid is None and environment.pci_bus_id is None:
        found = listed[0] if len(listed) == 1 else None
    return found


@dataclass(frozen=True)
class CaseSpan:
    """A case in time: its measured steps, when it began, when it ended (None: it runs)."""

    steps: StepsView
    started: int
    ended: int | None


@dataclass
class CardTally:
    """One card over one case, reduced at the rate at which it was read.

    take() goes on from where it was, so the figures do not depend on how long readings are kept;
    what was published is never changed: copy() first.
    """

    card: int
    name: str = ""
    final: bool = False  # nothing more will be taken
    start: int = 0  # of the measured steps
    end: int = 0
    steps: int = 0
    levels: dict[str, Tally] = field(default_factory=dict)  # readings within the steps
    whole: dict[str, Tally] = field(default_factory=dict)  # of these, whose window is as well
    power: Integral = field(default_factory=Integral)
    energy: Counter = field(default_factory=Counter)
    throttling: Throttling = field(default_factory=Throttling)
    work: Work = field(default_factory=Work)
    throttled: Stretches = field(default_factory=Stretches)  # positions of measured steps
    shared: Stretches = field(default_factory=Stretches)
    tenants: Tenants = field(default_factory=Tenants)
    highest: dict[str, float] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # why a metric is unknown
    _taken: dict[str, int] = field(default_factory=dict)  # newest reading by part
    _row: int = 0  # the first step that later readings may still mark

    def copy(self) -> CardTally:
        """The same, going on apart from now on."""
        return replace(
            self,
            levels={name: copy.copy(tally) for name, tally in self.levels.items()},
            whole={name: copy.copy(tally) for name, tally in self.whole.items()},
            power=self.power.copy(),
            energy=copy.copy(self.energy),
            throttling=self.throttling.copy(),
            work=copy.copy(self.work),
            throttled=self.throttled.copy(),
            shared=self.shared.copy(),
            tenants=self.tenants.copy(),
            highest=dict(self.highest),
            constants=dict(self.constants),
            _taken=dict(self._taken),
        )

    def take(self, card: CardHistoryView, span: CaseSpan, *, final: bool) -> None:
        """Take the readings that came since; final: of this case none will follow."""
        self._note(card)
        self.tenants.take(card.others, span.started, span.ended, final=final)
        self.final = final
        if not len(span.steps):
            return
        first, last = span.steps.row(0), span.steps.row(-1)
        self.steps = len(span.steps)
        self.start, self.end = first.start_ns, last.start_ns + round(last.wall_ms * 1e6)
        for name, window_s in LEVELS.items():
            self._take_level(card, name, window_s)
        self.power.take(self._fresh(card, "power"))
        self.energy.take(self._fresh(card, "energy"))
        for name, before in HIGHEST.items():
            self._take_highest(card, name, before, span.ended)
        self._take_marks(card, span.steps, final)

    def _note(self, card: CardHistoryView) -> None:
        """What hardly changes, and why something is not told."""
        for name in CONSTANTS:
            series = card.series.get(name)
            value = None if series is None else series.newest_known
            if value is not None:
                self.constants[name] = value
        if card.last is not None:
            self.name = card.last.name
            self.reasons = {
                name: metric.reason
                for name, metric in card.last.metrics.items()
                if metric.reason is not None
            }

    def _fresh(
        self, card: CardHistoryView, name: str, *, part: str = "", before: int = 0,
        until: int | None = None,
    ) -> list[Reading]:  # fmt: skip
        """Readings not taken yet, from `before` ns ahead of the steps up to their end, or until."""
        key = part or name
        series = card.series.get(name)
        if series is None:
            return []
        since = max(self.start - before, self._taken.get(key, -1) + 1)
        times, values = series.points(since)
        kept = bisect_right(times, self.end if until is None else until)
        if kept:
            self._taken[key] = times[kept - 1]
        return list(zip(times[:kept], values[:kept], strict=True))

    def _take_level(self, card: CardHistoryView, name: str, window_s: float) -> None:
        if window_s == UTILIZATION_WINDOW_S and name.endswith("utilization"):
            window_s = self.constants.get("utilization_window", 1e3 * window_s) / 1e3
        fresh = self._fresh(card, name, part=f"level {name}")
        known = [(t, value) for t, value in fresh if not math.isnan(value)]
        inside = [value for t, value in known if t >= self.start + window_s * 1e9]
        self.levels.setdefault(name, Tally()).take([value for _, value in known])
        self.whole.setdefault(name, Tally()).take(inside)

    def _take_highest(
        self, card: CardHistoryView, name: str, before: int, ended: int | None
    ) -> None:
        until = card.newest_ns if ended is None else ended
        fresh = self._fresh(card, name, part=f"highest {name}", before=before, until=until)
        known = [value for _, value in fresh if not math.isnan(value)]
        if known:
            self.highest[name] = max(self.highest.get(name, 0.0), *known)

    def _take_marks(self, card: CardHistoryView, steps: StepsView, final: bool) -> None:
        """The steps that overlapped throttling or the work of others."""
        after = STATE_HOLDS_NS if final else 0
        masks = self._fresh(card, "throttle", before=STATE_HOLDS_NS, until=self.end + after)
        settled = min(card.newest_ns, self.end)
        slow = self.throttling.take(masks, self.start, self.end, 2**62 if final else settled)
        after = WORK_HOLDS_NS if final else 0
        counts = self._fresh(card, "other_processes", before=WORK_HOLDS_NS, until=self.end + after)
        shares = dict(
            self._fresh(card, "other_utilization", before=WORK_HOLDS_NS, until=self.end + after)
        )
        crowded = self.work.take((t, count, shares.get(t, math.nan)) for t, count in counts)
        self._mark(steps, iv.joined(slow), iv.joined(crowded))
        # Later readings reach back so far at most.
        starts = steps.start_ns(self._row)
        self._row += max(0, bisect_left(starts, settled - WORK_HOLDS_NS - STATE_HOLDS_NS) - 1)

    def _mark(self, steps: StepsView, slow: list[iv.Interval], crowded: list[iv.Interval]) -> None:
        if not slow and not crowded:
            return
        starts, walls = steps.start_ns(self._row), steps.wall_ms(self._row)
        ends = [start + round(wall * 1e6) for start, wall in zip(starts, walls, strict=True)]
        for marked, spans in ((self.throttled, slow), (self.shared, crowded)):
            marked.extend(self._row + at for at in iv.touched(starts, ends, spans))


def tally_of(
    old: CardTally | None,
    cards: Mapping[int, CardHistoryView],
    environment: Environment | None,
    span: CaseSpan,
    *,
    final: bool,
) -> CardTally | None:
    """The tally that goes on from `old`, which stays as it is; None where the card is not known."""
    if old is not None and old.final:
        return old
    lasts = [card.last for card in cards.values() if card.last is not None]
    found = environment_card(lasts, environment)
    if found is None:
        return old
    same = old is not None and old.card == found.index
    tally = old.copy() if old is not None and same else CardTally(found.index)
    tally.take(cards[found.index], span, final=final)
    return tally
