"""Ratios of two measured means with their confidence, and when a change may be called one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.stats.student import student_t, t_quantile, two_sided_p
from llmprof.core.stats.summary import Summary

SMALLEST_CHANGE = 0.01  # a change below 1 % is not called one, however sure it is
WIDEST = 4.0  # times its lower end, above which the upper end of an interval leaves no figure


@dataclass(frozen=True)
class Ratio:
    """A ratio of means and its 95 % interval.

    The interval is symmetric on logarithms: of two noisy means neither way round may be told
    apart sooner. log_half is its half-width there, None where n < 2; p is the two-sided
    probability of such a ratio between equals; processes is how many fresh processes the fewer of
    the two means come from, which are the unit of replication.
    """

    value: float
    log_half: float | None
    p: float | None = None
    processes: int = 1

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.log_half is None else self.value * math.exp(-self.log_half)

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.log_half is None else self.value * math.exp(self.log_half)

    @property
    def half(self) -> float | None:
        """Half-width of the interval, to first order."""
        return None if self.log_half is None else self.value * self.log_half

    @property
    def judged(self) -> bool:
        """Whether several processes stand behind both means; steps of one process do not."""
        return self.processes > 1

    @property
    def resolved(self) -> bool:
        """Whether it differs from 1 beyond its interval."""
        return self.log_half is not None and abs(math.log(self.value)) > self.log_half

    @property
    def too_noisy(self) -> bool:
        """Whether a figure would mislead: the interval holds 1 and its ends lie far apart."""
        return (
            self.log_half is not None and not self.resolved and 2 * self.log_half > math.log(WIDEST)
        )

    @property
    def large(self) -> bool:
        """Whether it differs from 1 by more than one percent."""
        return abs(math.log(self.value)) > math.log1p(SMALLEST_CHANGE)

    @property
    def inverse(self) -> Ratio:
        """The same the other way round."""
        return Ratio(1 / self.value, self.log_half, self.p, self.processes)


def ratio(top: Summary | None, bottom: Summary | None) -> Ratio | None:
    """top's mean over bottom's; None where one is missing or not positive.

    Between processes where both have several, else between steps, which says nothing of what
    another process would measure.
    """
    if top is None or bottom is None or top.mean <= 0 or bottom.mean <= 0:
        return None
    if len(top.process_means) > 1 and len(bottom.process_means) > 1:
        return ratio_of_processes(top.process_means, bottom.process_means)
    value = top.mean / bottom.mean
    if top.std is None or bottom.std is None or top.n < 2 or bottom.n < 2:
        return Ratio(value, None)
    parts = [((s.std or 0.0) / s.mean) ** 2 / s.n for s in (top, bottom)]
    return _welch(value, parts, (top.n, bottom.n), processes=1)


def ratio_of_processes(top: Sequence[float], bottom: Sequence[float]) -> Ratio:
    """Ratio of the geometric means of positive process means, at least two on either side."""
    logs = [[math.log(each) for each in side] for side in (top, bottom)]
    value = math.exp(statistics.fmean(logs[0]) - statistics.fmean(logs[1]))
    parts = [statistics.variance(side) / len(side) for side in logs]
    sizes = len(top), len(bottom)
    return _welch(value, parts, sizes, processes=min(sizes))


def paired_ratio(top: Sequence[float], bottom: Sequence[float]) -> Ratio | None:
    """Ratio of process means that were measured in turns, round by round, so that drift cancels.

    The geometric mean of the rounds' ratios; the interval is Student's t over their logarithms.
    None unless there are equally many positive means, at least two.
    """
    if len(top) != len(bottom) or len(top) < 2 or min(*top, *bottom) <= 0:
        return None
    logs = [math.log(above / below) for above, below in zip(top, bottom, strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    freedom = len(logs) - 1
    p = two_sided_p(mean / error, freedom) if error else float(mean == 0)
    return Ratio(math.exp(mean), student_t(freedom) * error, p, len(logs))


def _welch(value: float, parts: Sequence[float], sizes: tuple[int, int], processes: int) -> Ratio:
    """With the variances of both log means, and Welch's degrees of freedom.

    B. L. Welch, Biometrika 34, 1947; the variance of a logarithm is the relative one, to first
    order.
    """
    variance = math.fsum(parts)
    if variance == 0:
        return Ratio(value, 0.0, float(value == 1), processes)
    freedom = variance**2 / sum(
        part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True) if part
    )
    error = math.sqrt(variance)
    p = two_sided_p(math.log(value) / error, freedom)
    return Ratio(value, t_quantile(freedom) * error, p, processes)
