"""Which phases of a step the host sets the pace of, by how far the card falls behind it.

A host that is ahead waits in its launches as soon as the card's queue is full, so that it then
needs as long as the card without setting the pace. What decides is the card's lag at a phase's end:
a card that waits for its next kernel has none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from llmprof.core.spec.case import PHASES, Phase
from llmprof.core.state.step_columns import StepsView

CAUGHT_UP = 0.1  # of a phase's device time: a smaller lag at its end is none
NEGLIGIBLE = 0.02  # of the step: a phase below it decides nothing
MOST_OF_STEP = 0.5  # of the step in such phases: then the host sets the step's pace
NEARLY_ALL = 0.95  # from here on there is no need to name the phases


@dataclass(frozen=True)
class LaunchBound:
    """Phases at whose end the card has caught up with the host, and their share."""

    phases: tuple[Phase, ...]
    share: float  # of the device time of a step, 0 to 1

    @property
    def most_of_step(self) -> bool:
        """Whether the step as a whole is called launch-bound: the host sets its pace."""
        return self.share >= MOST_OF_STEP

    @property
    def nearly_all(self) -> bool:
        """Whether there is no need to name the phases."""
        return self.share >= NEARLY_ALL


def launch_bound(measured: StepsView) -> LaunchBound | None:
    """Medians over measured steps; None where host or device times are not known."""
    device = {phase: measured.device_ms(phase) for phase in PHASES}
    host = {phase: measured.host_ms(phase) for phase in PHASES}
    known = [phase for phase in PHASES if host[phase] and len(host[phase]) == len(device[phase])]
    times = {phase: statistics.median(device[phase]) for phase in known}
    total = math.fsum(times.values())
    if total <= 0:
        return None
    lags = _lags([(device[phase], host[phase]) for phase in known])
    phases = tuple(
        phase
        for phase, lag in zip(known, lags, strict=True)
        if times[phase] >= NEGLIGIBLE * total and lag <= CAUGHT_UP * times[phase]
    )
    return LaunchBound(phases, math.fsum(times[phase] for phase in phases) / total)


def _lags(phases: list[tuple[list[float], list[float]]]) -> Iterator[float]:
    """How long after the host the card reaches each phase's end; both start a step together."""
    behind = [0.0] * min(len(device) for device, _ in phases)
    for device, host in phases:
        behind = [
            lag + ran - launched for lag, ran, launched in zip(behind, device, host, strict=False)
        ]
        yield statistics.median(behind)
