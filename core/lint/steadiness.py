"""Is the figure steady: spread, number of samples, warm-up, drift, and targets that were missed."""

from __future__ import annotations

import statistics

from llmprof.core.lint.verdict import Context, Verdict
from llmprof.core.spec.experiment import MOST_PROFILE_STEPS
from llmprof.core.state.view import CaseState
from llmprof.core.stats.stopping import (
    MEASURING_PATIENCE_S,
    NOT_MET,
    NOT_STEADY,
    known_within,
    steps_for,
)
from llmprof.core.stats.summary import (
    MIN_OUTLIER_SAMPLES,
    Summary,
    drift_text,
    stability,
    summarize,
)
from llmprof.core.system.numbers import as_given
from llmprof.core.system.text import counted, duration

UNSURE = 5.0  # percent: half-width of the 95 % interval beyond which digits are few
DRIFT = 3.0  # percent between first and last third: smaller ones are told, but no warning
MIN_WARMING = 4  # samples for a verdict on the first
STILL_COLD = 1.2  # times the median of the others
_STEADY_FIRST = (
    "steps have a trend, which more of them do not average out: first more warm-up, or find what "
    "changes (another process, the clock)"
)
EXPLAINED = {
    "stability": "The steps scatter: a CV (Std Dev over mean) below 2 % is very stable, below 6 % "
    "acceptable.",
    "few-samples": "The 95 % interval of the mean reaches more than 5 % to either side, so the "
    "figure is a rough one.",
    "warming": "The first measured step was still cold: warm-up was too short.",
    "drift": "Later steps differ from earlier ones beyond their noise, so the mean depends on when "
    "it was measured.",
    "unmet": "Automatic warm-up or measuring ended at its limit and not at its goal.",
}


def stable(state: CaseState, context: Context) -> Verdict | None:
    """Stability of the step's total."""
    if state.total is None:
        return None
    text = stability(state.total)
    steady = text in ("very stable", "acceptable")
    cv = state.total.cv_percent
    figure = "" if cv is None else f" (CV {cv:.1f} %)"
    return Verdict("stability", "info" if steady else "warning", text + figure)


def few_samples(state: CaseState, context: Context) -> Verdict | None:
    """Too few steps for the digits."""
    total = state.total
    if total is None or total.ci95 is None or total.mean <= 0:
        return None
    half = 100 * total.ci95 / total.mean
    if half <= UNSURE:
        return None
    profiled = state.case.probe == "kernels"
    noun = "profiled step" if profiled else "step"
    if warming(state, context) is not None:
        advice = _warmer(summarize(state.measured.total_ms(1)), profiled=profiled)
    else:
        advice = _STEADY_FIRST if _drifts(total) else _more_steps(total, profiled=profiled)
    text = f"the mean is {known_within(half)} after {counted(total.n, noun)}; {advice}"
    return Verdict("few-samples", "warning", text)


def _warmer(rest: Summary, *, profiled: bool) -> str:
    """What would help where the first step was cold: the others tell how many it would take."""
    enough = rest.ci95 is not None and 100 * rest.ci95 <= UNSURE * rest.mean
    if not enough and _drifts(rest):
        return f"the first step was still cold, and {_STEADY_FIRST}"
    advice = "as many steps would do" if enough else _more_steps(rest, profiled=profiled)
    return f"the first step was still cold: with more warm-up, {advice}"


def _drifts(total: Summary) -> bool:
    """Whether steps have a trend: no number of them settles a mean that moves."""
    return total.drift_percent is not None and abs(total.drift_percent) >= DRIFT


def _more_steps(total: Summary, *, profiled: bool) -> str:
    """What would make the mean's interval narrow enough, as an option that can be given."""
    needed = steps_for(total.cv_percent or 0.0, UNSURE)
    if needed <= total.n:
        needed = total.n + 1
    took_s = needed * total.mean / 1e3
    rough = ", as far as so few steps can tell" if total.n < MIN_OUTLIER_SAMPLES else ""
    goal = f"would bring that to about {as_given(UNSURE)} %{rough}"
    if profiled and needed > MOST_PROFILE_STEPS:
        return (
            f"not even {MOST_PROFILE_STEPS} steps, the most there may be, {goal}: for the step's"
            " time see the timing of the same case"
        )
    if profiled:
        return f"--profile-steps {needed} {goal}"
    if took_s > MEASURING_PATIENCE_S:
        return (
            f"it would take {duration(took_s)} of steps like these to reach {as_given(UNSURE)} %:"
            " first find what disturbs them (another process, a changing clock)"
        )
    return f"--measure-steps {needed:d} {goal}"


def warming(state: CaseState, context: Context) -> Verdict | None:
    """The first measured step is an outlier above the others (pyperf's test)."""
    first, *rest = state.measured.total_ms() or [0.0]
    if len(rest) < MIN_WARMING - 1:
        return None
    q1, median, q3 = statistics.quantiles(rest, n=4, method="inclusive")
    if first <= max(q3 + 1.5 * (q3 - q1), STILL_COLD * median):
        return None
    text = (
        f"the first measured step took {first / median:.1f} × the median of the others "
        f"after {counted(state.case.warmup_steps, 'warm-up step')}"
    )
    return Verdict("warming", "warning", text)


def drifting(state: CaseState, context: Context) -> Verdict | None:
    """A trend beyond the noise of first and last third."""
    if state.total is None or state.total.drift_percent is None:
        return None
    change = state.total.drift_percent
    text = f"steps became {drift_text(change)}"
    return Verdict("drift", "warning" if abs(change) >= DRIFT else "info", text)


def unmet(state: CaseState, context: Context) -> Verdict | None:
    """Automatic warm-up or measuring that ended without its goal."""
    seen = state.observed
    said = [
        text
        for text in (() if seen is None else (seen.warmup_stop, seen.measure_stop))
        if text is not None and text.startswith((NOT_STEADY, NOT_MET))
    ]
    return Verdict("unmet", "warning", "; ".join(said)) if said else None
