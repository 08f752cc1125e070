"""Verdicts on cases: is a figure steady, is it possible, is it of what was asked.

A rule is a function of one case, or of a whole run, in a module of this package; RULES and
RUN_RULES below list them in the order in which they are read. EXPLAINED says what each means.
"""

from __future__ import annotations

from collections.abc import Callable

from llmprof.core.events import Environment
from llmprof.core.lint import (
    completeness,
    host_pace,
    losses,
    neighbours,
    observed,
    physics,
    steadiness,
    what_sets_the_pace,
)
from llmprof.core.lint.verdict import Context, Rule, Severity, Verdict
from llmprof.core.state.view import CaseState, RunView

__all__ = ["EXPLAINED", "Severity", "Verdict", "lint", "verdicts"]

RULES: tuple[Rule, ...] = (
    observed.requested,
    observed.disturbed,
    observed.shared_cpu,
    host_pace.stolen_time,
    observed.throttled,
    observed.not_a_number,
    physics.impossible_rates,
    physics.impossible_bytes,
    physics.backward_ratio,
    steadiness.stable,
    steadiness.few_samples,
    steadiness.warming,
    steadiness.drifting,
    steadiness.unmet,
    what_sets_the_pace.launch_bound,
    completeness.incomplete,
)
RUN_RULES: tuple[Callable[[RunView], list[tuple[int, Verdict]]], ...] = (
    neighbours.cliffs,
    neighbours.costs_nothing,
    neighbours.elsewhere,
    host_pace.slow_host,
    losses.trains_differently,
    what_sets_the_pace.card_disturbed,
)
EXPLAINED: dict[str, str] = {
    **observed.EXPLAINED,
    **physics.EXPLAINED,
    **steadiness.EXPLAINED,
    **what_sets_the_pace.EXPLAINED,
    **completeness.EXPLAINED,
    **neighbours.EXPLAINED,
    **host_pace.EXPLAINED,
    **losses.EXPLAINED,
}


def verdicts(
    state: CaseState, environment: Environment | None, given_peak: float | None = None
) -> tuple[Verdict, ...]:
    """All verdicts on a case by itself, in the order of RULES."""
    context = Context(state.environment or environment, given_peak)
    return tuple(verdict for rule in RULES if (verdict := rule(state, context)) is not None)


def lint(view: RunView) -> dict[int, tuple[Verdict, ...]]:
    """All verdicts on every case of a run, those that need its neighbours last, by case index."""
    given = None if view.experiment is None else view.experiment.peak_tflops
    found = {state.index: list(verdicts(state, view.environment, given)) for state in view.cases}
    for rule in RUN_RULES:
        for index, verdict in rule(view):
            found[index].append(verdict)
    return {index: tuple(each) for index, each in found.items()}
