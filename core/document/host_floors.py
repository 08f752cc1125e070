"""How soon the host launches a step, told by steps of the same launches that it set the pace of.

Of another context or batch as well, and in TF32 as in fp32: what is launched is the same. A lower
precision launches no less than fp32, whose steps tell it where none of its own does.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from llmprof.core.document.sources import Source
from llmprof.core.document.steps import host_phases
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.spec.case import Case, Phase
from llmprof.core.state.view import CaseState


@dataclass(frozen=True)
class ShortestStep:
    """The shortest step of which the host set the pace as a whole, and at which context it ran."""

    ms: float
    context_length: int


@dataclass(frozen=True)
class HostFloor:
    """What steps of the same launches tell of a step.

    launches_ms: the least that the host took for each phase whose pace it set somewhere, whatever
    the card. Elsewhere it may have waited for the card, so that other phases count as none.
    shortest: a step on this card, with what the card itself takes where it is behind its host.
    """

    launches_ms: float = 0.0
    shortest: ShortestStep | None = None


class HostFloors:
    """The floors of all training steps that some runs measured."""

    def __init__(self, sources: Sequence[Source]) -> None:
        told: dict[Case, list[CaseState]] = {}
        for process in _trained(sources):
            told.setdefault(launches_of(process.case), []).append(process)
        self._floors = {launches: _floor(states) for launches, states in told.items()}

    def of(self, case: Case) -> HostFloor:
        """That of a case which need not have run; an empty one where no step tells it."""
        own = self._floors.get(launches_of(case), HostFloor())
        wide = self._floors.get(launches_of(replace(case, precision="fp32")), HostFloor())
        return HostFloor(own.launches_ms or wide.launches_ms, own.shortest or wide.shortest)


def _trained(sources: Sequence[Source]) -> Iterator[CaseState]:
    """Every process that timed training steps."""
    for source in sources:
        for state in source.cases:
            if state.case.probe == "timing" and state.case.mode == "train":
                yield from (each for each in processes_of(state) if each.total is not None)


def launches_of(case: Case) -> Case:
    """Equal for cases whose steps are the same launches."""
    precision = "fp32" if case.precision == "tf32" else case.precision
    return replace(
        case.configuration(), context_length=1, batch_size=1, precision=precision, warmup_steps=1
    )


def _floor(states: Sequence[CaseState]) -> HostFloor:
    shortest = min(
        (
            ShortestStep(state.total.mean, state.case.context_length)
            for state in states
            if state.total is not None and is_launch_bound(state)
        ),
        key=lambda step: step.ms,
        default=None,
    )
    return HostFloor(sum(_least(states).values()), shortest)


def _least(states: Sequence[CaseState]) -> Mapping[Phase, float]:
    """By phase the least that the host took for it, where it set the phase's pace."""
    least: dict[Phase, float] = {}
    for state in states:
        for phase in host_phases(state) or ():
            took = statistics.median(state.measured.host_ms(phase))
            least[phase] = min(took, least.get(phase, took))
    return least
