"""Samples to summary: location, spread, confidence, outliers, drift."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.stats.student import student_t
from llmprof.core.system.text import counted

STABLE_CV = 2.0  # percent: very stable below
ACCEPTABLE_CV = 6.0  # percent: acceptable below
MIN_DRIFT_SAMPLES = 6
MIN_OUTLIER_SAMPLES = 8


@dataclass(frozen=True)
class Summary:
    """What a list of samples says; figures that need n >= 2 are None below that.

    std is the sample standard deviation (ddof 1); ci95 the half-width of the 95 % confidence
    interval of the mean by Student's t; quartiles are linear interpolations between order
    statistics (type 7); outliers are positions beyond the quartiles by more than 1.5 IQR (mild)
    or 3 IQR (severe), flagged and never dropped; drift_percent is the last third's mean over
    the first third's, None below six samples or when the difference is within their noise.

    Of several processes (process_means) the mean is the mean of theirs, ci95 is between them, and
    std remains that of steps within one.
    """

    n: int
    mean: float
    median: float
    minimum: float
    maximum: float
    std: float | None = None
    q1: float | None = None
    q3: float | None = None
    ci95: float | None = None
    mild: tuple[int, ...] = ()
    severe: tuple[int, ...] = ()
    slow_outliers: int = 0  # of mild and severe, those above the median
    drift_percent: float | None = None
    process_means: tuple[float, ...] = ()  # of each fresh process, where there were several

    @property
    def iqr(self) -> float | None:
        """Interquartile range."""
        return None if self.q1 is None or self.q3 is None else self.q3 - self.q1

    @property
    def cv_percent(self) -> float | None:
        """Coefficient of variation: std over mean, percent."""
        return cv_percent(self.std, self.mean)


def cv_percent(std: float | None, mean: float) -> float | None:
    """Coefficient of variation: std over mean, percent; None where the mean is not above 0."""
    return None if std is None or mean <= 0 else 100 * std / mean


def summarize(samples: Sequence[float]) -> Summary:
    """Summary of at least one finite sample.

    Raises ValueError for an empty list or a sample that is not finite, OverflowError for
    samples beyond 1e154, whose squares are no numbers.
    """
    n = len(samples)
    if n == 0:
        raise ValueError("no samples")
    if not all(map(math.isfinite, samples)):
        raise ValueError("a sample is not finite")
    ordered = sorted(samples)
    mean = math.fsum(samples) / n
    median = statistics.median(ordered)
    if n < 2:
        return Summary(n, mean, median, ordered[0], ordered[-1])
    std = math.sqrt(_variance(samples, mean))
    q1, q3 = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    mild, severe = _outliers(samples, q1, q3)
    return Summary(
        n,
        mean,
        median,
        ordered[0],
        ordered[-1],
        std=std,
        q1=q1,
        q3=q3,
        ci95=student_t(n - 1) * std / math.sqrt(n),
        mild=mild,
        severe=severe,
        slow_outliers=sum(samples[i] > median for i in (*mild, *severe)),
        drift_percent=_drift(samples),
    )


def over_processes(summaries: Sequence[Summary]) -> Summary:
    """One summary of the same steps in several fresh processes, which are the unit of replication.

    Outliers and drift are each process's own and are left out. Raises ValueError for none.
    """
    if not summaries:
        raise ValueError("no processes")
    if len(summaries) == 1:
        return summaries[0]
    means = tuple(each.mean for each in summaries)
    known = [each.std for each in summaries if each.std is not None]
    variance = math.fsum(std * std for std in known) / len(known) if known else None
    between = statistics.stdev(means)
    return Summary(
        n=sum(each.n for each in summaries),
        mean=math.fsum(means) / len(means),
        median=statistics.median(each.median for each in summaries),
        minimum=min(each.minimum for each in summaries),
        maximum=max(each.maximum for each in summaries),
        std=None if variance is None else math.sqrt(variance),
        ci95=student_t(len(means) - 1) * between / math.sqrt(len(means)),
        process_means=means,
    )


def stability(summary: Summary) -> str:
    """Verdict on spread: "very stable", "acceptable", or why it is not."""
    cv = summary.cv_percent
    if cv is None:
        return "n/a: one step"
    if cv < STABLE_CV:
        return "very stable"
    if cv < ACCEPTABLE_CV:
        return "acceptable"
    return f"unstable: {_reason(summary)}"


def drift_text(percent: float) -> str:
    """A drift in words, "17 % shorter from the first third to the last"."""
    way = "longer" if percent > 0 else "shorter"
    return f"{abs(percent):.0f} % {way} from the first third to the last"


def _reason(summary: Summary) -> str:
    if summary.drift_percent is not None:
        return f"steps became {drift_text(summary.drift_percent)}"
    if summary.n < MIN_OUTLIER_SAMPLES:
        return f"steps scatter by {summary.cv_percent:.0f} %, and are too few to say why"
    outliers = len(summary.mild) + len(summary.severe)
    if outliers and summary.slow_outliers:
        told = f"{counted(summary.slow_outliers, 'slow outlier')} of {counted(summary.n, 'step')}"
        return f"{told}, slowest {_ratio(summary)} × the median"
    return f"steps scatter by {summary.cv_percent:.0f} % without a trend"


def _ratio(summary: Summary) -> str:
    return f"{summary.maximum / summary.median:.1f}" if summary.median > 0 else "many"


def _variance(samples: Sequence[float], mean: float) -> float:
    """Of a sample (ddof 1), in two passes; statistics.variance, exact by fractions, is costly."""
    squares = math.fsum([(value - mean) * (value - mean) for value in samples])
    if math.isinf(squares):
        raise OverflowError("samples too large to square")
    return squares / (len(samples) - 1)


def _quantile(ordered: Sequence[float], q: float) -> float:
    position = q * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def _outliers(
    samples: Sequence[float], q1: float, q3: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if len(samples) < MIN_OUTLIER_SAMPLES:
        return (), ()  # of a few samples one always lies outside
    iqr = q3 - q1
    low, high = q1 - iqr, q3 + iqr  # between these lies nearly everything, and nothing to flag
    mild, severe = [], []
    for position, value in [(at, v) for at, v in enumerate(samples) if not low <= v <= high]:
        beyond = max(q1 - value, value - q3)
        if beyond > 3 * iqr:
            severe.append(position)
        elif beyond > 1.5 * iqr:
            mild.append(position)
    return tuple(mild), tuple(severe)


def _drift(samples: Sequence[float]) -> float | None:
    third = len(samples) // 3
    if len(samples) < MIN_DRIFT_SAMPLES:
        return None
    first, last = samples[:third], samples[-third:]
    before, after = math.fsum(first) / third, math.fsum(last) / third
    if before <= 0:
        return None
    noise = math.sqrt((_variance(first, before) + _variance(last, after)) / third)
    change = after - before
    if abs(change) <= max(student_t(2 * third - 2) * noise, 0.01 * before):
        return None
    return 100 * change / before
