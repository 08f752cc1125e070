"""How far a run is and when it will end, from its view alone."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.results import CaseState, RunView


@dataclass(frozen=True)
class Progress:
    """Shares from 0 to 1, seconds; None where nothing is known yet."""

    case_share: float | None
    run_share: float | None
    elapsed_s: float | None
    left_s: float | None
    doing: str  # what the current case is at


def progress(view: RunView) -> Progress:
    """Progress by the journal's own clock, so that a replay shows what the run showed."""
    case = view.current
    share = case_share(case) if case else None
    total = len(view.cases)
    run_share = (view.cases_done + (share or 0.0)) / total if total else None
    return Progress(share, run_share, _elapsed(view), _left(view, share), doing(view))


def case_share(case: CaseState) -> float:
    """Share of a case's steps that are done."""
    return min(1.0, case.steps_done / case.steps_planned) if case.steps_planned else 0.0


def doing(view: RunView) -> str:
    """What happens now, in a few words."""
    case = view.current
    if view.outcome is not None:
        return {"complete": "finished", "interrupted": "interrupted"}.get(
            view.outcome, view.outcome
        )
    if case is None:
        if not view.cases:
            return "waiting for the engine"
        return "starting a worker" if view.environment else "looking at the device"
    if case.model is None:
        return "building the model"
    if case.steps_done == 0:
        return "waiting for the first step"
    if len(case.measured) == 0 and case.case.warmup_steps:
        return f"warm-up step {len(case.warmup)} of {case.case.warmup_steps}"
    if len(case.measured) < case.case.measure_steps:
        return f"step {len(case.measured)} of {case.case.measure_steps}"
    return "reading memory"


def _elapsed(view: RunView) -> float | None:
    if not view.segments:
        return None
    return max(0.0, (view.last_t - view.segments[-1].t) / 1e9)


def _left(view: RunView, share: float | None) -> float | None:
    """Seconds to the end: the cases' own estimates, else the mean of those that are done."""
    if view.outcome is not None or not view.cases:
        return None
    known = [s for case in view.cases if (s := _duration(case)) is not None]
    mean = sum(known) / len(known) if known else None
    left = 0.0
    for case in view.cases:
        if case.done:
            continue
        whole = case.estimate_s if case.estimate_s is not None else mean
        if case.status == "running":
            whole = _running(view, case, share, whole)
        if whole is None:
            return None
        left += whole
    return left


def _running(
    view: RunView, case: CaseState, share: float | None, whole: float | None
) -> float | None:
    if case.started_ns is None:
        return whole
    spent = max(0.0, (view.last_t - case.started_ns) / 1e9)
    if share and share >= 0.3:
        return spent * (1 - share) / share
    return None if whole is None else max(0.0, whole - spent)


def _duration(case: CaseState) -> float | None:
    if case.status != "ok" or case.started_ns is None or case.ended_ns is None:
        return None
    return (case.ended_ns - case.started_ns) / 1e9
