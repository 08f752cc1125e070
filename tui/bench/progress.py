"""How far a run is and when it will end, from its view alone."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.figures.eta import remaining
from llmprof.core.figures.outcomes import cases_settled, left_out
from llmprof.core.state.view import CaseState, RunView


@dataclass(frozen=True)
class RunProgress:
    """Shares from 0 to 1, seconds; None where nothing is known yet."""

    case_share: float | None
    run_share: float | None
    elapsed_s: float | None
    left_s: float | None
    doing: str  # what the current case is at


def progress(view: RunView, now_ns: int | None = None) -> RunProgress:
    """Progress at a moment of CLOCK_MONOTONIC, known where a run lives on this boot.

    Without one it is by the journal's own clock, so that a replay shows what the run showed.
    """
    case = view.current
    share = case_share(case) if case else None
    aside = left_out(view)
    total = len(view.cases) - aside
    run_share = (cases_settled(view) - aside + (share or 0.0)) / total if total else None
    left = remaining(view) if view.outcome is None else None
    return RunProgress(share, run_share, _elapsed(view, now_ns), left, doing(view))


def case_share(case: CaseState) -> float:
    """Share of a case's steps that are done."""
    return min(1.0, case.steps_done / case.steps_planned) if case.steps_planned else 0.0


def doing(view: RunView) -> str:
    """What happens now, in a few words."""
    case = view.current
    if view.loops:
        return "a training loop: press 6 for the Loop view"
    if view.outcome is not None:
        return {"complete": "finished", "interrupted": "interrupted"}.get(
            view.outcome, view.outcome
        )
    if case is None:
        if not view.cases:
            return "starting up"
        return (
            "starting the process of the next case" if view.environment else "looking at the device"
        )
    if case.model is None:
        return "building the model"
    if case.case.probe == "memory":
        return "recording memory"
    if case.steps_done == 0:
        return "waiting for the first step"
    if len(case.measured) == 0 and case.case.warmup_steps:
        return f"warm-up step {len(case.warmup)} of {case.case.warmup_steps}"
    if len(case.measured) < case.case.measure_steps:
        return f"step {len(case.measured)} of {case.case.measure_steps}"
    return "reading memory"


def _elapsed(view: RunView, now_ns: int | None) -> float | None:
    if not view.segments:
        return None
    end = view.last_t if now_ns is None or view.outcome is not None else max(view.last_t, now_ns)
    return max(0.0, (end - view.segments[-1].t) / 1e9)
