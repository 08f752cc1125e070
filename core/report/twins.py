"""A profiled case beside the plain timing of the same configuration."""

from __future__ import annotations

import msgspec

from llmprof.core.results import CaseState, RunView
from llmprof.core.spec import Case


def twin(view: RunView, state: CaseState) -> CaseState | None:
    """The timing case of the same configuration, None when the run has none."""
    wanted = _configuration(state.case)
    return next(
        (
            other
            for other in view.cases
            if other.case.probe == "timing" and _configuration(other.case) == wanted
        ),
        None,
    )


def mean_wall(state: CaseState | None) -> float | None:
    """Mean wall time of a step, milliseconds; None without measured steps."""
    return None if state is None or state.wall is None else state.wall.mean


def mean_phase(state: CaseState | None, phase: str) -> float | None:
    """Mean time of a phase, milliseconds; None without measured steps or such a phase."""
    if state is None:
        return None
    return next((found.mean for name, found in state.summaries.items() if name == phase), None)


def _configuration(case: Case) -> Case:
    return msgspec.structs.replace(
        case,
        probe="timing",
        measure_steps=1,
        target_percent=None,
        interleaved=False,
        stacks=False,
        trace=False,
        nvtx=False,
    )
