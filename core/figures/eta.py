"""Time that is left of a run, from its own pace where there is one."""

from __future__ import annotations

from llmprof.core.state.view import CaseState, RunView

PACE_STEPS = 200  # steps that tell a case's pace


def remaining(view: RunView) -> float | None:
    """Seconds left: estimates of the cases to come, scaled by how those so far compare with theirs.

    None while no case has an estimate.
    """
    if all(state.estimate_s is None for state in view.cases):
        return None
    pace = _pace(view)
    left = 0.0
    for state in view.cases:
        if state.status == "pending":
            left += (state.estimate_s or 0.0) * (pace or 1.0)
        elif state.status == "running":
            left += case_remaining(state, view.last_t) or (state.estimate_s or 0.0)
    return left


def start_s(view: RunView) -> float:
    """Seconds from a run's beginning until its device was read, torch loaded; 0 before that."""
    if view.environment is None or not view.segments:
        return 0.0
    return max(0.0, (view.environment.t - view.segments[0].t) / 1e9)


def case_remaining(state: CaseState, now_ns: int) -> float | None:
    """Seconds left of a running case by its own steps; None before the second step."""
    # Only the newest: a screen asks several times a second, of cases of any length.
    done = state.steps_done
    warmup = state.warmup.wall_ms(max(0, len(state.warmup) - PACE_STEPS))
    steps = [*warmup, *state.measured.wall_ms(max(0, len(state.measured) - PACE_STEPS))][
        -PACE_STEPS:
    ]
    if done < 2:
        return None
    later = steps[1:] if len(steps) == done else steps
    return max(0, state.steps_planned + 2 - done) * sum(later) / len(later) / 1e3


def _pace(view: RunView) -> float | None:
    took = planned = 0.0
    for state in view.cases:
        if state.status != "ok" or not state.estimate_s:
            continue
        if state.started_ns is None or state.ended_ns is None:
            continue
        took += (state.ended_ns - state.started_ns) / 1e9
        planned += state.estimate_s
    return took / planned if planned else None
