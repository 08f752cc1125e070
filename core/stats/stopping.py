"""When a warm-up is steady and when measuring may stop: pure rules over step times.

Warm-up follows pyperf's test of a window in two halves, measuring follows nvbench's criteria
with a confidence interval in place of its noise. Every rule says which condition is unmet.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from llmprof.core.stats.student import student_t
from llmprof.core.system.numbers import as_given, at_most, significant
from llmprof.core.system.text import counted

WINDOW = 20  # steps that the steadiness test looks at
FASTER, SLOWER = 0.5, 0.1  # the first half's mean may lie so far below or above the second's
QUARTILES = 0.05  # relative difference of the halves' quartiles
SCATTER = 0.10  # difference of the halves' median absolute deviations, relative to the median
WARMUP_BUDGET_S = 60.0

MIN_SAMPLES = 10
MIN_SECONDS = 0.5  # measured time in all
MEASURE_BUDGET_S = 15.0
NORMAL_95 = 1.96
LOOKS_APART = 100  # a look at all steps once they have grown by one part in so many
MEASURING_PATIENCE_S = 600.0  # longer measuring of one case is no advice

NOT_STEADY = "not steady"  # how a reason begins that names an unmet condition
NOT_MET = "target not met"


def unsteady(samples: Sequence[float]) -> str | None:
    """The first condition of steadiness that the last WINDOW samples miss, None if steady.

    The scatter of the halves is compared on the scale of the median: with ten samples a half,
    the ratio of two deviations would mostly be chance.
    """
    if len(samples) < WINDOW:
        return f"{len(samples)} of {WINDOW} steps"
    window = list(samples[-WINDOW:])
    first, second = window[: WINDOW // 2], window[WINDOW // 2 :]
    q1, _, q3 = statistics.quantiles(window[1:], n=4, method="inclusive")
    if window[0] > q3 + 1.5 * (q3 - q1):
        return "the window's first step is an outlier"
    before, after = statistics.fmean(first), statistics.fmean(second)
    change = (before - after) / after if after > 0 else 0.0
    if not -FASTER <= change <= SLOWER:
        return f"the halves' means differ by {100 * change:+.0f} %"
    for name, position in (("lower", 0), ("upper", 2)):
        old, new = (
            statistics.quantiles(half, n=4, method="inclusive")[position]
            for half in (first, second)
        )
        if abs(old - new) > QUARTILES * new:
            return f"the halves' {name} quartiles differ by {100 * (old - new) / new:+.0f} %"
    median = statistics.median(second)
    if abs(_mad(first) - _mad(second)) > SCATTER * median:
        return "the halves scatter differently"
    return None


def warmup_stop(samples: Sequence[float], elapsed_s: float, most: int) -> str | None:
    """Why an automatic warm-up ends after these steps, None to go on."""
    missing = unsteady(samples)
    if missing is None:
        return f"steady after {counted(len(samples), 'step')}"
    if len(samples) >= most:
        return f"{NOT_STEADY} after {counted(most, 'step')}, the most there may be: {missing}"
    if elapsed_s >= WARMUP_BUDGET_S:
        return f"{NOT_STEADY} within {as_given(WARMUP_BUDGET_S)} s: {missing}"
    return None


def relative_ci(samples: Sequence[float]) -> float | None:
    """Half-width of the mean's 95 % interval over the mean, percent; None below two samples."""
    n = len(samples)
    if n < 2:
        return None
    mean = math.fsum(samples) / n
    if mean <= 0:
        return None
    half = student_t(n - 1) * statistics.stdev(samples, mean) / math.sqrt(n)
    return 100 * half / mean


def known_within(percent: float) -> str:
    """known within 0.8 % (95 % interval): how far the mean's interval reaches to either side."""
    return f"known within {at_most(percent)} % (95 % interval)"


def steps_needed(samples: Sequence[float], target_percent: float) -> int | None:
    """Samples that would bring the mean's 95 % interval within the target of it."""
    n = len(samples)
    if n < 2:
        return None
    mean = math.fsum(samples) / n
    if mean <= 0:
        return None
    return steps_for(100 * statistics.stdev(samples, mean) / mean, target_percent)


def steps_for(cv_percent: float, target_percent: float) -> int:
    """Samples of this scatter whose mean has a 95 % interval within the target of it.

    The least n of 2 or more with t(n - 1) · CV / √n ≤ target: a few more than the normal
    quantile would need.
    """
    n = max(2, math.ceil((NORMAL_95 * cv_percent / target_percent) ** 2))
    while student_t(n - 1) * cv_percent > target_percent * math.sqrt(n):
        n += 1
    return n


def short_of(samples: Sequence[float], target_percent: float) -> str | None:
    """The first condition for stopping that is unmet, None when measuring may stop."""
    n = len(samples)
    if n < MIN_SAMPLES:
        return f"{n} of at least {MIN_SAMPLES} steps"
    seconds = math.fsum(samples) / 1e3
    if seconds < MIN_SECONDS:
        return f"{significant(seconds, 2)} s measured of at least {as_given(MIN_SECONDS)} s"
    reached = relative_ci(samples)
    if reached is None or reached > target_percent:
        known = "unknown" if reached is None else known_within(reached)
        return f"mean {known}, target {as_given(target_percent)} %"
    return None


def measure_stop(
    samples: Sequence[float], elapsed_s: float, target_percent: float, most: int
) -> str | None:
    """Why automatic measuring ends after these steps (milliseconds), None to go on."""
    n = len(samples)
    over = n >= most or elapsed_s >= MEASURE_BUDGET_S
    if not over and n % max(1, n // LOOKS_APART):
        return None  # a look at every step would soon take longer than the steps
    missing = short_of(samples, target_percent)
    if missing is None:
        return f"mean {known_within(relative_ci(samples) or 0.0)} after {counted(n, 'step')}"
    if n >= most:
        within = counted(most, "step")
        return f"{NOT_MET} within {within}: {missing}{_outlook(samples, target_percent)}"
    if elapsed_s >= MEASURE_BUDGET_S and n >= 2:
        return (
            f"{NOT_MET} within {as_given(MEASURE_BUDGET_S)} s: {missing}"
            f"{_outlook(samples, target_percent)}"
        )
    return None


def _outlook(samples: Sequence[float], target_percent: float) -> str:
    needed = steps_needed(samples, target_percent)
    if needed is None or needed <= len(samples):
        return ""
    if needed * statistics.fmean(samples) / 1e3 > MEASURING_PATIENCE_S:
        return "; the steps scatter too much for any sensible number of them"
    return f"; a fixed --measure-steps {needed} would do"


def _mad(samples: Sequence[float]) -> float:
    median = statistics.median(samples)
    return statistics.median(abs(value - median) for value in samples)
