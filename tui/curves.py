"""View state of the live charts: envelopes that take only what is new of a case."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmprof.core.results import CaseState
from llmprof.core.spec import Phase
from llmprof.core.stats import Summary, student_t
from llmprof.core.steps import StepsView
from llmprof.tui.chart.envelope import Envelope

OUTLIER_CHECK = 2000  # beyond so many samples outliers are looked for when the case is done
FARTHEST = 1.75  # times the mean: beyond it an outlier stands at the chart's edge
LONGEST_MS = 1e10  # a step of four months is none
WIDTH_S = 0.002  # first stretch of an envelope


class RunningMean:
    """Mean and 95 % interval as samples come (Welford, Technometrics 4(3), 1962)."""

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self._m2 = 0.0

    def add(self, value: float) -> None:
        """Take a sample."""
        self.n += 1
        delta = value - self.mean
        self.mean += delta / self.n
        self._m2 += delta * (value - self.mean)

    def extend(self, values: Sequence[float]) -> None:
        """Take many samples (Chan, Golub and LeVeque, COMPSTAT 1982)."""
        n = len(values)
        if not n:
            return
        mean = math.fsum(values) / n
        m2 = math.fsum([(value - mean) * (value - mean) for value in values])
        delta, together = mean - self.mean, self.n + n
        self._m2 += m2 + delta * delta * self.n * n / together
        self.mean += delta * n / together
        self.n = together

    @property
    def std(self) -> float | None:
        """Sample standard deviation (ddof 1), None below two samples."""
        return math.sqrt(self._m2 / (self.n - 1)) if self.n > 1 else None

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
        self.running = {name: RunningMean() for name in (*case.case.phases, "total")}
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
        walls = _plausible(steps.wall_ms(start))
        if not all(map(math.isfinite, walls)):
            walls = [wall if math.isfinite(wall) else 0.0 for wall in walls]
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
                self._mean(phase, values)
        end = self.seconds(times[-1]) + walls[-1] / 1000
        self.last = max(self.last, end)
        if measured:
            self._mean("total", totals)
            self.highest = max(self.highest or 0.0, max(filter(math.isfinite, totals), default=0.0))
        else:
            self.warmup_end = end

    def scale_top(self) -> float | None:
        """What the step axis must reach: measured steps, the farthest outliers excepted.

        The first warm-up steps, and an outlier far beyond the mean, would press all
        else to the floor; they are drawn at the upper edge.
        """
        total = self.running["total"]
        if self.highest is None or not total.n:
            return self.phases["total"].highest
        return min(self.highest, FARTHEST * total.mean)

    def _mean(self, name: str, values: list[float]) -> None:
        known = list(filter(math.isfinite, values))
        running = self.running[name]
        if name != "total":
            running.extend(known)
            return
        start = 0
        while start < len(known):
            # Every early sample moves the band; later ones are taken two percent at a time.
            end = start + max(1, running.n // 50)
            running.extend(known[start:end])
            start = end
            self._band(running)

    def _band(self, running: RunningMean) -> None:
        half = running.ci95
        if half is not None:
            at = float(running.n)
            self.mean.append(at, running.mean)
            self.low.append(at, max(0.0, running.mean - half))
            self.high.append(at, running.mean + half)


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


def _plausible(values: list[float]) -> list[float]:
    """Times as they are, NaN for what can be no time of a step."""
    if values and min(values) >= 0 and max(values) < LONGEST_MS:
        return values
    return [value if 0 <= value < LONGEST_MS else math.nan for value in values]
