"""Which phases of a step the host sets the pace of, by host and device time at the same edges."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from llmprof.core.results import CaseState
from llmprof.core.spec import PHASES, Phase

LAUNCH_BOUND = 0.9  # host time ÷ device time of a phase
SMALLEST = 0.02  # of the step: a phase below it decides nothing
MOST = 0.5  # of the step in such phases: then the host sets the step's pace
NEARLY_ALL = 0.95  # from here on there is no need to name the phases


@dataclass(frozen=True)
class Bound:
    """Phases that take the host as long to launch as the device to run, and their share."""

    phases: tuple[Phase, ...]
    share: float  # of the device time of a step, 0 to 1


def bound(state: CaseState) -> Bound | None:
    """Medians over the measured steps; None where host or device times are not known."""
    device = {phase: state.measured.device_ms(phase) for phase in PHASES}
    host = {phase: state.measured.host_ms(phase) for phase in PHASES}
    times = {
        phase: (statistics.median(host[phase]), statistics.median(device[phase]))
        for phase in PHASES
        if host[phase] and device[phase]
    }
    total = sum(ran for _, ran in times.values())
    if total <= 0:
        return None
    phases = tuple(
        phase
        for phase, (launched, ran) in times.items()
        if ran >= SMALLEST * total and launched >= LAUNCH_BOUND * ran
    )
    return Bound(phases, sum(times[phase][1] for phase in phases) / total)
