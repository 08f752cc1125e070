"""Ratios of two measured means with their confidence, and when a change may be called one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.stats.summary import Summary, student_t

SMALLEST_CHANGE = 0.01  # a change below 1 % is not called one, however sure it is


@dataclass(frozen=True)
class Ratio:
    """A ratio and the half-width of its 95 % interval; half is None where n < 2."""

    value: float
    half: float | None

    @property
    def resolved(self) -> bool:
        """Whether it differs from 1 beyond its interval.

        Judged on logarithms: of two noisy means neither way round may be told apart sooner.
        """
        return self.half is not None and abs(math.log(self.value)) > self.half / self.value

    @property
    def changed(self) -> bool:
        """Whether it differs from 1 beyond both its interval and one percent."""
        return self.resolved and abs(math.log(self.value)) > math.log1p(SMALLEST_CHANGE)


def ratio(top: Summary | None, bottom: Summary | None) -> Ratio | None:
    """top's mean over bottom's; None where one is missing or not positive.

    The interval is the delta method's with Welch's degrees of freedom (B. L. Welch,
    Biometrika 34, 1947), both variances taken relative to their means.
    """
    if top is None or bottom is None or top.mean <= 0 or bottom.mean <= 0:
        return None
    value = top.mean / bottom.mean
    if top.std is None or bottom.std is None:
        return Ratio(value, None)
    parts = [((s.std or 0.0) / s.mean) ** 2 / s.n for s in (top, bottom)]
    variance = math.fsum(parts)
    if variance == 0:
        return Ratio(value, 0.0)
    freedom = variance**2 / sum(
        part**2 / (s.n - 1) for part, s in zip(parts, (top, bottom), strict=True)
    )
    return Ratio(value, value * student_t(max(1, math.floor(freedom))) * math.sqrt(variance))


def paired_ratio(top: Sequence[float], bottom: Sequence[float], turn: int) -> Ratio | None:
    """Ratio of two interleaved series of equal length, turn by turn, so that drift cancels.

    The geometric mean of the turns' ratios; the interval is Student's t over their logarithms.
    None below two whole turns.
    """
    turns = min(len(top), len(bottom)) // turn
    if turns < 2:
        return None
    logs = []
    for start in range(0, turns * turn, turn):
        above, below = (math.fsum(each[start : start + turn]) for each in (top, bottom))
        if above <= 0 or below <= 0:
            return None
        logs.append(math.log(above / below))
    value = math.exp(statistics.fmean(logs))
    half = student_t(turns - 1) * statistics.stdev(logs) / math.sqrt(turns)
    return Ratio(value, value * half)
