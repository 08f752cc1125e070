"""A profiled case: what its shares are of, and the plain timing of the same configuration."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.state.view import CaseState, RunView


@dataclass(frozen=True)
class Wholes:
    """Milliseconds of all profiled steps together, or of one phase of them.

    None where the run does not say.

    work is the sum over all activities, of which shares add up to 100 %. busy is the time in
    which at least one ran: of it they add up to more where activities overlapped. On the CPU
    there is no busy: self times of ops are parts of work.
    """

    work: float
    busy: float | None
    wall: float | None

    @classmethod
    def of(cls, state: CaseState, table: ev.KernelTable, phase: str = WHOLE_STEP) -> Wholes:
        """Those of a profiled case: of whole steps, or of a phase that is named."""
        work = sum(row.total_ms for row in table.rows if phase in (WHOLE_STEP, row.phase))
        parts = () if state.timeline is None else state.timeline.parts
        part = next((each for each in parts if each.phase == phase), None)
        busy = None if part is None or table.source == "cpu" else part.busy_ms * table.steps
        return cls(work, busy, None if part is None else part.wall_ms * table.steps)


def work_word(source: str) -> str:
    """What the sum over all activities is called."""
    return "GPU time" if source == "cuda" else "op time"


def twin(view: RunView, state: CaseState) -> CaseState | None:
    """The timing case of the same configuration, None when the run has none."""
    wanted = state.case.configuration()
    return next(
        (
            other
            for other in view.cases
            if other.case.probe == "timing" and other.case.configuration() == wanted
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
