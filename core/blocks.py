"""A stretch of measured steps and the card's readings in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmprof.core import intervals as iv
from llmprof.core.devices import throttle
from llmprof.core.results import CaseState
from llmprof.core.series import CardHistoryView

POWER_WINDOW_S = 1.0  # NVML's power reading is a 1 s average on most cards since Ampere
UTILIZATION_WINDOW_S = 1.0  # nvml.h: 1/6 s to 1 s, taken where the card does not tell its own
COUNTER_PERIOD_S = 0.1  # the energy counter is updated every 20-100 ms
WORST_ERROR_PERCENT = 10.0  # energy with a larger error is not given
DISAGREE_PERCENT = 15.0  # between the counter and the power readings
STATE_HOLDS_NS = 1_000_000_000  # a throttle reading says nothing of later than this
WORK_HOLDS_NS = 4_000_000_000  # a reading of other processes says nothing of earlier than this


@dataclass(frozen=True)
class Level:
    """One metric over a block of steps, in the metric's unit.

    reaches_out is True when the block is too short for the driver's averaging window, so that
    the readings also cover time outside of it.
    """

    mean: float
    minimum: float
    maximum: float
    readings: int
    reaches_out: bool = False


@dataclass(frozen=True)
class Energy:
    """Energy of one step, averaged over a block; error_percent by the source's time resolution."""

    joules_per_step: float
    joules_per_token: float
    error_percent: float
    source: str
    block_s: float
    mean_w: float
    note: str = ""


LEVELS = {  # metric -> seconds that one reading averages over
    "sm_clock": 0.0,
    "memory_clock": 0.0,
    "temperature": 0.0,
    "memory_used": 0.0,
    "power": POWER_WINDOW_S,
    "utilization": UTILIZATION_WINDOW_S,
    "memory_utilization": UTILIZATION_WINDOW_S,
}


class Block:
    """The stretch of a case's measured steps, and the card's readings in it."""

    def __init__(self, card: CardHistoryView, case: CaseState) -> None:
        self.card = card
        first, last = case.measured.row(0), case.measured.row(-1)
        self.steps = len(case.measured)
        self.start = first.start_ns
        self.end = last.start_ns + round(last.wall_ms * 1e6)
        self.seconds = (self.end - self.start) / 1e9

    def constant(self, name: str) -> float | None:
        """The newest reading of what hardly changes."""
        series = self.card.series.get(name)
        known = [] if series is None else series.between(0, 2**62)
        return known[-1] if known else None

    def points(self, name: str, margin_ns: int = 0) -> tuple[list[int], list[float]]:
        """Times and values, gaps as NaN, up to margin_ns beyond the block on both sides."""
        series = self.card.series.get(name)
        if series is None:
            return [], []
        times, values = series.points(self.start - margin_ns)
        kept = [at for at, t in enumerate(times) if t <= self.end + margin_ns]
        return [times[at] for at in kept], [values[at] for at in kept]

    def level(self, name: str) -> Level | None:
        """Readings whose window lies in the block; all readings in it when there are none."""
        window_s = LEVELS[name]
        if window_s == UTILIZATION_WINDOW_S and name.endswith("utilization"):
            window_s = (self.constant("utilization_window") or 1e3 * window_s) / 1e3
        points = [(t, v) for t, v in zip(*self.points(name), strict=True) if not math.isnan(v)]
        whole = [v for t, v in points if t >= self.start + window_s * 1e9]
        values = whole or [v for _, v in points]
        if not values:
            return None
        mean = math.fsum(values) / len(values)
        return Level(mean, min(values), max(values), len(values), reaches_out=not whole)

    def why_missing(self, name: str) -> str:
        """The reason why a metric has no reading here."""
        last = self.card.last
        metric = None if last is None else last.metrics.get(name)
        if metric is not None and metric.reason is not None:
            return metric.reason
        return f"no reading in the {self.seconds:.2g} s of the measured steps"


def throttling(block: Block) -> tuple[float | None, dict[str, float], list[iv.Interval]]:
    """Seconds with a harmful reason, by reason, and when; None without a reading."""
    times, masks = block.points("throttle", STATE_HOLDS_NS)
    held = list(iv.held_after(times, STATE_HOLDS_NS))
    known = [
        (span, throttle.harmful(int(mask)))
        for span, mask in zip(held, masks, strict=True)
        if not math.isnan(mask)
    ]
    if not iv.overlap_ns((span for span, _ in known), block.start, block.end):
        return None, {}, []
    reasons: dict[str, float] = {}
    for span, names in known:
        for name in names:
            shared = iv.overlap_ns([span], block.start, block.end) / 1e9
            if shared:
                reasons[name] = reasons.get(name, 0.0) + shared
    spans = iv.joined(span for span, names in known if names)
    return iv.overlap_ns(spans, block.start, block.end) / 1e9, reasons, spans


def work_of_others(block: Block) -> list[iv.Interval]:
    """When others used the card, or may have: they were there, their share not known as 0."""
    times, counts = block.points("other_processes", WORK_HOLDS_NS)
    shares = dict(zip(*block.points("other_utilization", WORK_HOLDS_NS), strict=True))
    spans = iv.held_before(times, WORK_HOLDS_NS)
    return iv.joined(
        span
        for span, t, count in zip(spans, times, counts, strict=True)
        if count > 0 and shares.get(t, math.nan) != 0
    )


def energy_of(block: Block, case: CaseState) -> Energy | str:
    """Energy a step from the counter, else from power; the reason when neither serves."""
    counted = _rate(*block.points("energy"))
    times, watts = block.points("power")
    known = [(t, w) for t, w in zip(times, watts, strict=True) if not math.isnan(w)]
    if counted is not None:
        rate_w, span_s = counted
        error, source = 100 * COUNTER_PERIOD_S / span_s, "energy counter"
        if block.card.last is not None and "GH200" in block.card.last.name:
            source = "energy counter of the whole module"
    elif len(known) > 1:
        span_s = (known[-1][0] - known[0][0]) / 1e9
        rate_w = iv.trapezoid(*zip(*known, strict=True)) / span_s
        error, source = 100 * POWER_WINDOW_S / block.seconds, "power integrated (estimated)"
    else:
        return block.why_missing("energy")
    if error > WORST_ERROR_PERCENT:
        return f"{block.seconds:.1f} s of steps are too short: the error would be {error:.0f} %"
    joules = rate_w * block.seconds / block.steps
    note = _disagreement(rate_w, [w for _, w in known]) if counted is not None else ""
    return Energy(joules, joules / case.case.tokens, error, source, block.seconds, rate_w, note)


def _rate(times: list[int], joules: list[float]) -> tuple[float, float] | None:
    """Watts and the seconds they are over, from the longest unbroken run of counter readings."""
    best, first = (0, 0), 0
    for at, value in enumerate(joules):
        if math.isnan(value):
            first = at + 1
        elif at > first and value < joules[at - 1]:  # the counter was reset
            first = at
        elif at > first and times[at] - times[first] > times[best[1]] - times[best[0]]:
            best = (first, at)
    start, end = best
    if end == start or joules[end] <= joules[start]:
        return None
    span_s = (times[end] - times[start]) / 1e9
    return (joules[end] - joules[start]) / span_s, span_s


def _disagreement(counted_w: float, watts: list[float]) -> str:
    if not watts:
        return ""
    read_w = math.fsum(watts) / len(watts)
    percent = 100 * (read_w / counted_w - 1)
    if abs(percent) <= DISAGREE_PERCENT:
        return ""
    return f"power readings average {read_w:.0f} W, {percent:+.0f} % against the counter"
