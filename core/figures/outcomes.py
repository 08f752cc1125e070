"""Which cells of a run there are figures for, and which a resumed run measures."""

from __future__ import annotations

import signal
from typing import Literal

from llmprof.core.events import SKIPPED
from llmprof.core.state.view import CaseState, RunView

CaseOutcome = Literal[
    "done",
    "OOM",
    "OOM (predicted)",
    "unsupported",
    "left out",
    "failed",
    "killed",
    "stopped",
    "missing",
]

# A process that dies of one of these died of what it did itself.
_OWN_FAULT = {
    -number
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
}


def outcome_of(state: CaseState) -> CaseOutcome:
    """What there is of a case, in one word."""
    match state.status:
        case "ok":
            return "done"
        case "oom":
            predicted = state.failure is not None and state.failure.predicted
            return "OOM (predicted)" if predicted else "OOM"
        case "unsupported":
            return "unsupported"
    if outside_cause(state):
        return state.status if state.status in ("killed", "stopped") else "missing"
    return "left out" if state.status == SKIPPED else "failed"


def outside_cause(state: CaseState) -> bool:
    """Whether a case has no figures through nothing of its own.

    It was never run or cut off, its process was killed from outside, or it fell silent.
    """
    if state.failure is not None and state.failure.outside:
        return True
    match state.status:
        case "pending" | "running" | "stopped" | "timeout":
            return True
        case "killed":
            code = None if state.failure is None else state.failure.exit_code
            return code not in _OWN_FAULT
    return False


def left_out(view: RunView) -> int:
    """Cases that were never meant to be measured here, as those beyond a CPU's budget."""
    return sum(outcome_of(state) == "left out" for state in view.cases)


def cases_settled(view: RunView) -> int:
    """Cases of which nothing more is wanted: not those that a stop cut off or kept from running."""
    return sum(not outside_cause(state) for state in view.cases)


def to_resume(view: RunView, *, failed: bool = False) -> tuple[int, ...]:
    """Cases that a resumed run measures: missing ones, with `failed` also errors and OOMs."""
    again = {"error", "oom", "killed"} if failed else set()
    return tuple(
        state.index for state in view.cases if outside_cause(state) or state.status in again
    )
