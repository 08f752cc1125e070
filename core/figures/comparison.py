"""Two cases side by side, phase by phase: what changed, by how much, and whether it may be called.

The unit of replication is the fresh process: steps of one process share its luck with memory,
clocks and neighbours, so a difference between single processes is shown and not judged. What the
difference acts on is tested first, its phases by Holm's procedure at 5 % together; only where one
of them is told from equal are they and the whole step judged, each by its own 95 % interval. So
of equal pairs at most one in twenty gets a verdict.
"""

from __future__ import annotations

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
Found = tuple[Part, Summary, Summary, Ratio]
Decision = Literal["faster", "slower", "not distinguished", "not judged"]
ONE_PROCESS = "one process: not judged"


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
        """Changes of more than this many percent either way lie outside the interval."""
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
    found: list[Found] = []
    in_turns = _took_turns(base, other)
    for phase in other.case.phases:
        pair = base.summaries.get(phase), other.summaries.get(phase)
        _take(found, phase, *pair, in_turns=in_turns)
    _take(found, "total", base.total, other.total, in_turns=in_turns)
    if not found or found[-1][0] != "total":
        return None
    processes = found[-1][3].processes
    why = _not_judged(base, other, processes)
    sure = not why and _opened(found, touched)
    parts = tuple(
        PartChange(
            part,
            before,
            after,
            time,
            part in touched,
            _decision(time, sure, why) if part in touched or part == "total" else "",
        )
        for part, before, after, time in found
    )
    return Comparison(base, other, parts, processes, why)


def _take(
    found: list[Found],
    part: Part,
    base: Summary | None,
    other: Summary | None,
    *,
    in_turns: bool,
) -> None:
    time = _ratio(base, other, in_turns=in_turns)
    if time is not None and base is not None and other is not None:
        found.append((part, base, other, time))


def _ratio(base: Summary | None, other: Summary | None, *, in_turns: bool) -> Ratio | None:
    """The other's time over the base's."""
    if in_turns and base is not None and other is not None:
        return paired_ratio(other.process_means, base.process_means) or ratio(other, base)
    return ratio(other, base)


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


def _opened(found: list[Found], touched: set[str]) -> bool:
    """Whether a phase that the difference acts on is told from equal: the test before all others.

    Where nothing is known of what it acts on, the whole step is that.
    """
    acted = [time for part, _, _, time in found if part in touched] or [found[-1][-1]]
    return any(holm([1.0 if time.p is None else time.p for time in acted]))


def _decision(time: Ratio, opened: bool, why: str) -> Decision:
    """By its own interval once the test before it was passed; nothing below 1 % is a change."""
    if why:
        return "not judged"
    if not (opened and time.resolved and time.large):
        return "not distinguished"
    return "faster" if time.value < 1 else "slower"
