"""View state of the live charts: envelopes that take only what is new of a case."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmprof.core.spec.case import Phase
from llmprof.core.state.step_columns import StepsView
from llmprof.core.state.view import CaseState
from llmprof.core.stats.student import student_t
from llmprof.core.stats.summary import Summary, cv_percent
from llmprof.tui.chart.envelope import Envelope

OUTLIER_CHECK = 2000  # beyond so many samples outliers are looked for when the case is done
FARTHEST = 1.75  # times the mean: beyond it an outlier stands at the chart's edge
LONGEST_MS = 1e10  # a step of four months is none
WIDTH_S = 0.002  # first stretch of an envelope


class Mean:
    """Mean of samples as they come."""

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0

    def extend(self, values: Sequence[float]) -> None:
        """Take samples."""
        if values:
            self.n += len(values)
            self.mean += (math.fsum(values) / len(values) - self.mean) * len(values) / self.n


class RunningMean(Mean):
    """Mean and 95 % interval as samples come (Welford, Technometrics 4(3), 1962)."""

    def __init__(self) -> None:
        super().__init__()
        self._m2 = 0.0

    def extend(self, values: Sequence[float]) -> None:
        """Take many samples (Chan, Golub and LeVeque, COMPSTAT 1982)."""
        n, before, held = len(values), self.mean, self.n
        if not n:
            return
        super().extend(values)
        mean = math.fsum(values) / n
        m2 = math.fsum([(value - mean) * (value - mean) for value in values])
        self._m2 += m2 + (mean - before) ** 2 * held * n / self.n

    @property
    def std(self) -> float | None:
        """Sample standard deviation (ddof 1), None below two samples."""
        return math.sqrt(self._m2 / (self.n - 1)) if self.n > 1 else None

    @property
    def cv_percent(self) -> float | None:
        """Coefficient of variation, percent."""
        return cv_percent(self.std, self.mean)

    @property
    def ci95(self) -> float | None:
        """Half-width of the 95 % confidence interval of the mean (Student's t)."""
        std = self.std
        return None if std is None else student_t(self.n - 1) * std / math.sqrt(self.n)


class CaseCurves:
    """Everything the charts need of one case, kept up to date with update()."""

    def __init__(self, case: CaseState) -> None:
        self.key = (case.index, case.attempt)
        self.origin_ns: int | None = None
        self.phases: dict[Phase | str, Envelope] = {
            name: Envelope(width=WIDTH_S) for name in (*case.case.phases, "total")
        }
        self.total = RunningMean()
        self.means: dict[Phase | str, Mean] = {"total": self.total}
        self.means |= {phase: Mean() for phase in case.case.phases}
        self.mean, self.low, self.high = (Envelope(512) for _ in range(3))
        self.warmup_end: float | None = None
        self.highest: float | None = None  # of the measured steps
        self.last = 0.0
        self._taken = [0, 0]

    def update(self, case: CaseState) -> None:
        """Take the steps that are new."""
        for which, steps in enumerate((case.warmup, case.measured)):
            start, end = self._taken[which], len(steps)
            if end > start:
                self._take(case, steps, start, measured=which == 1)
                self._taken[which] = end

    def seconds(self, t_ns: int) -> float:
        """A journal time on this case's axis."""
        return (t_ns - (self.origin_ns or 0)) / 1e9

    def _take(self, case: CaseState, steps: StepsView, start: int, *, measured: bool) -> None:
        times = steps.start_ns(start)
        walls = _plausible(steps.wall_ms(start), instead=0.0)
        totals = _plausible(steps.total_ms(start))
        if self.origin_ns is None:
            self.origin_ns = times[0]
        # A step stands at its middle.
        origin = self.origin_ns
        xs = [(t - origin) / 1e9 + wall / 2000 for t, wall in zip(times, walls, strict=True)]
        self.phases["total"].extend(xs, totals)
        for phase in case.case.phases:
            values = _plausible(steps.device_ms_or_nan(phase, start))
            self.phases[phase].extend(xs, values)
            if measured:
                self.means[phase].extend(_finite(values))
        end = self.seconds(times[-1]) + walls[-1] / 1000
        self.last = max(self.last, end)
        if measured:
            known = _finite(totals)
            self._narrow(known)
            self.highest = max(self.highest or 0.0, max(known, default=0.0))
        else:
            self.warmup_end = end

    def scale_top(self) -> float | None:
        """What the step axis must reach: measured steps, the farthest outliers excepted.

        The first warm-up steps, and an outlier far beyond the mean, would press all
        else to the floor; they are drawn at the upper edge.
        """
        if self.highest is None or not self.total.n:
            return self.phases["total"].highest
        return min(self.highest, FARTHEST * self.total.mean)

    def _narrow(self, values: list[float]) -> None:
        """Every early sample moves the band; later ones are taken two percent at a time."""
        start = 0
        while start < len(values):
            end = start + max(1, self.total.n // 50)
            self.total.extend(values[start:end])
            start = end
            half, mean, at = self.total.ci95, self.total.mean, float(self.total.n)
            if half is not None:
                self.mean.append(at, mean)
                self.low.append(at, max(0.0, mean - half))
                self.high.append(at, mean + half)


def total_of(case: CaseState) -> Summary | None:
    """The summary of a case's steps; None for figures that a damaged journal made absurd."""
    try:
        return case.total
    except (ValueError, OverflowError):
        return None


def outliers(case: CaseState) -> list[int]:
    """Positions of measured steps that are outliers; [] while a long case is running."""
    if not case.done and len(case.measured) > OUTLIER_CHECK:
        return []
    total = total_of(case)
    return [] if total is None else sorted((*total.mild, *total.severe))


def _plausible(values: list[float], instead: float = math.nan) -> list[float]:
    """Times as they are, and something else for what can be no time of a step.

    Journals hold no negative times (events.Ms): where the sum is no longer, none is.
    """
    if sum(values) < LONGEST_MS:
        return values
    return [value if 0 <= value < LONGEST_MS else instead for value in values]


def _finite(values: list[float]) -> list[float]:
    if math.isfinite(sum(values)):
        return values
    return [value for value in values if math.isfinite(value)]
