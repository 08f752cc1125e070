"""One fit a quantity: which cells stand for its growth, and whether one power describes them."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.report.subject import Subject
from llmprof.core.state.view import CaseState
from llmprof.core.stats.power_fit import Point, Power, fit_power

LAUNCH_BOUND = "launch-bound"  # why a cell's time says nothing of the card
APART = 0.5  # exponents between neighbouring points: no one power describes them further apart


def stands(subject: Subject, state: CaseState, *, timed: bool) -> bool:
    """Whether a cell says how its time grows, or its bytes, which no clock can make wrong."""
    if timed:
        return not subject.failed_checks(state) and not is_launch_bound(state)
    return not subject.failed_counts(state)


def one_power(points: Iterable[Point]) -> Power | None:
    """The fit of points that one power describes; else None."""
    fit = fit_power(points)
    if fit is None or fit.between[1] - fit.between[0] > APART:
        return None
    return fit


def between(fit: Power) -> str:
    """1.79 to 2.02: the least and the greatest exponent from one point to the next."""
    low, high = (f"{each:.2f}" for each in fit.between)
    return f"{low} to {high}"
