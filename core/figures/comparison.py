"""Two cases side by side, phase by phase: what changed, by how much, and whether it may be called.

The unit of replication is the fresh process: steps of one process share its luck with memory,
clocks and neighbours, so a difference between single processes is shown and not judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from llmprof.core.figures.host_pace import pace_apart
from llmprof.core.figures.replicates import processes_of
from llmprof.core.spec.axes import SWITCHES, apart
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import Ratio, paired_ratio, ratio
from llmprof.core.stats.student import holm
from llmprof.core.stats.summary import Summary

Part = Phase | Literal["total"]
Decision = Literal["faster", "slower", "not distinguished", "not judged"]
ONE_PROCESS = "one process: not judged"
LEVEL = 0.05  # of one comparison: all that is judged of it together


@dataclass(frozen=True)
class PartChange:
    """One part of a step in both cases.

    time is the other's over the base's; below 1 the other is faster. touched: what differs
    between the cases acts on this part, which is judged with the total. decision is "" for a
    part that is shown beside these.
    """

    part: Part
    base: Summary
    other: Summary
    time: Ratio
    touched: bool
    decision: Decision | Literal[""]

    @property
    def speedup(self) -> Ratio:
        """How many times as fast the other is."""
        return self.time.inverse

    @property
    def excluded_percent(self) -> float | None:
        """Changes of more than ± this many percent lie outside the interval."""
        if self.time.low is None or self.time.high is None:
            return None
        return 100 * max(abs(self.time.low - 1), abs(self.time.high - 1))


@dataclass(frozen=True)
class Comparison:
    """A case against a base: its parts, the total last, and why nothing was judged, if so."""

    base: CaseState
    other: CaseState
    parts: tuple[PartChange, ...]
    processes: int  # of the one that has fewer
    not_judged: str = ""

    @property
    def total(self) -> PartChange:
        """The whole step."""
        return self.parts[-1]

    @property
    def judged(self) -> tuple[PartChange, ...]:
        """What was judged: touched phases first, then the total."""
        return tuple(part for part in self.parts if part.decision and part.decision != "not judged")

    def changed(self, *decisions: Decision) -> tuple[PartChange, ...]:
        """The parts with one of these decisions."""
        return tuple(part for part in self.parts if part.decision in decisions)


def compare(base: CaseState, other: CaseState) -> Comparison | None:
    """other against base; None where one of them has no figures."""
    touched = {phase for axis in apart(base.case, other.case, SWITCHES) for phase in axis.touches}
    found: list[tuple[Part, Summary, Summary, Ratio]] = []
    in_turns = _took_turns(base, other)
    for phase in other.case.phases:
        pair = base.summaries.get(phase), other.summaries.get(phase)
        _take(found, phase, *pair, in_turns=in_turns)
    _take(found, "total", base.total, other.total, in_turns=in_turns)
    if not found or found[-1][0] != "total":
        return None
    family = [at for at, (part, *_) in enumerate(found) if part in touched or part == "total"]
    processes = found[-1][3].processes
    why = _not_judged(base, other, processes)
    decisions = _decisions([found[at][3] for at in family], judged=not why)
    said = dict(zip(family, decisions, strict=True))
    parts = tuple(
        PartChange(part, before, after, time, part in touched, said.get(at, ""))
        for at, (part, before, after, time) in enumerate(found)
    )
    return Comparison(base, other, parts, processes, why)


def _take(
    found: list[tuple[Part, Summary, Summary, Ratio]],
    part: Part,
    base: Summary | None,
    other: Summary | None,
    *,
    in_turns: bool,
) -> None:
    if base is None or other is None:
        return
    time = ratio(other, base)
    if in_turns:
        time = paired_ratio(other.process_means, base.process_means) or time
    if time is not None:
        found.append((part, base, other, time))


def _took_turns(base: CaseState, other: CaseState) -> bool:
    """Whether the processes of both were measured in the same rounds, their steps alternating."""
    if not (base.case.interleaved and other.case.interleaved):
        return False
    rounds = [
        [each.case.process for each in processes_of(state) if each.total is not None]
        for state in (base, other)
    ]
    return rounds[0] == rounds[1]


def _not_judged(base: CaseState, other: CaseState, processes: int) -> str:
    if processes < 2:
        return ONE_PROCESS
    factor = pace_apart(base, other)
    if factor is None:
        return ""
    return f"not judged: the host was {factor:.1f} × slower in one of them"


def _decisions(times: list[Ratio], *, judged: bool) -> list[Decision]:
    """Holm's procedure over the family, and nothing below one percent is called a change."""
    if not judged:
        return ["not judged"] * len(times)
    rejected = holm([1.0 if time.p is None else time.p for time in times], LEVEL)
    return [_decision(time, sure) for time, sure in zip(times, rejected, strict=True)]


def _decision(time: Ratio, sure: bool) -> Decision:
    if not (sure and time.large):
        return "not distinguished"
    return "faster" if math.log(time.value) < 0 else "slower"
