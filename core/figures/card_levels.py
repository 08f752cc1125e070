"""Figures of a card over a stretch of measured steps, from the tally of its readings."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.state.card_tally import POWER_WINDOW_S, CardTally
from llmprof.core.system.numbers import significant

COUNTER_PERIOD_S = 0.1  # the energy counter is updated every 20-100 ms
WORST_ERROR_PERCENT = 10.0  # energy with a larger error is not given
DISAGREE_PERCENT = 15.0  # between the counter and the power readings


@dataclass(frozen=True)
class MetricLevel:
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


def block_seconds(tally: CardTally) -> float:
    """Length of the block."""
    return (tally.end - tally.start) / 1e9


def level(tally: CardTally, name: str) -> MetricLevel | None:
    """Readings whose window lies in the block; all readings in it when there are none."""
    whole, any_ = tally.whole.get(name), tally.levels.get(name)
    found = whole if whole is not None and whole.n else any_
    if found is None or found.mean is None:
        return None
    return MetricLevel(found.mean, found.low, found.high, found.n, reaches_out=found is not whole)


def why_missing(tally: CardTally, name: str) -> str:
    """The reason why a metric has no reading in the block."""
    no_reading = f"no reading in the {significant(block_seconds(tally), 2)} s of the measured steps"
    return tally.reasons.get(name, no_reading)


def throttled_s(tally: CardTally) -> float | None:
    """Seconds with a harmful reason; None without a reading."""
    return tally.throttling.harmful_ns / 1e9 if tally.throttling.known_ns else None


def throttle_reasons(tally: CardTally) -> dict[str, float]:
    """Seconds by harmful reason."""
    return {name: ns / 1e9 for name, ns in tally.throttling.reasons.items()}


def energy_of(tally: CardTally, tokens: int) -> Energy | str:
    """Energy of a step of so many tokens from the counter, else from power; or why not."""
    counted = tally.energy.rate()
    block_s = block_seconds(tally)
    if counted is not None:
        rate_w, span_s = counted
        error, source = 100 * COUNTER_PERIOD_S / span_s, "energy counter"
        if "GH200" in tally.name:
            source = "energy counter of the whole module"
    elif (integrated_w := tally.power.mean) is not None:
        rate_w = integrated_w
        error, source = 100 * POWER_WINDOW_S / block_s, "power integrated (estimated)"
    else:
        return why_missing(tally, "energy")
    if error > WORST_ERROR_PERCENT:
        return f"{block_s:.1f} s of steps are too short: the error would be {error:.0f} %"
    joules = rate_w * block_s / tally.steps
    note = _disagreement(rate_w, tally.power.readings.mean) if counted is not None else ""
    return Energy(joules, joules / tokens, error, source, block_s, rate_w, note)


def _disagreement(counted_w: float, read_w: float | None) -> str:
    if read_w is None:
        return ""
    percent = 100 * (read_w / counted_w - 1)
    if abs(percent) <= DISAGREE_PERCENT:
        return ""
    return f"power readings average {read_w:.0f} W, {percent:+.0f} % against the counter"
