"""Two cases side by side, phase by phase: what changed, by how much, and whether it may be called.

The unit of replication is the fresh process: steps of one process share its luck with memory,
clocks and neighbours, so a difference between single processes is shown and not judged. What the
difference acts on is tested first, its phases by Holm's procedure at 5 % together; only where one
of them is told from equal are they and the whole step judged, each by its own 95 % interval. So
of equal pairs at most one in twenty gets a verdict.

Cases of two runs were measured at different times and never in turns. There every phase that counts
may be acted on, and there are as many questions as cases: the cases are tested together, and within
one that is told from equal each phase by Holm's procedure, so that of equal runs at most one in
twenty gets a verdict anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from llmprof.core.figures.host_pace import pace_apart
from llmprof.core.figures.replicates import processes_of
from llmprof.core.spec.axes import SWITCHES, apart
from llmprof.core.spec.case import Phase
from llmprof.core.state.launch_bound import NEGLIGIBLE
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
    def sign_told(self) -> bool:
        """Whether the two means that stand beside the change move the same way as it does.

        They are arithmetic and the change is of geometric means, so that of processes that scatter
        widely one may be above 1 and the other below.
        """
        if self.decision in ("faster", "slower"):
            return True
        return (self.time.value - 1) * (self.other.mean - self.base.mean) >= 0

    @property
    def told(self) -> bool:
        """Whether the change may stand as a figure."""
        noisy = self.time.judged and self.time.too_noisy
        return self.sign_told and not noisy

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


@dataclass(frozen=True)
class CasePair:
    """A case of one run and its like of another.

    acts_on: the phases that the difference may act on. failed_checks: those that say no to either.
    """

    base: CaseState
    other: CaseState
    acts_on: frozenset[Part]
    failed_checks: tuple[str, ...] = ()


def compare(
    base: CaseState, other: CaseState, failed_checks: Sequence[str] = ()
) -> Comparison | None:
    """other against base, both of one run; None where one of them has no figures.

    failed_checks: the names of checks that say no to one of them: then nothing is judged.
    """
    touched = {phase for axis in apart(base.case, other.case, SWITCHES) for phase in axis.touches}
    found = _measured(base, other, in_turns=_took_turns(base, other))
    if not found:
        return None
    processes = found[-1][3].processes
    why = _not_judged(base, other, processes, failed_checks)
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


def compare_together(pairs: Sequence[CasePair]) -> tuple[Comparison, ...]:
    """Cases of two runs, one comparison a pair that has figures on both sides.

    A phase below 2 % of both steps is shown and not judged. A phase is called changed where Holm's
    procedure tells it from equal within its case, the step by its own interval once one was.
    """
    measured = [
        (pair, found)
        for pair in pairs
        if (found := _measured(pair.base, pair.other, in_turns=False))
    ]
    reasons = [
        _not_judged(pair.base, pair.other, found[-1][3].processes, pair.failed_checks)
        for pair, found in measured
    ]
    tested: list[set[Part]] = [
        {part for part, *_ in found if part in pair.acts_on and _counts(found, part)} or {"total"}
        for pair, found in measured
    ]
    asked = [at for at, why in enumerate(reasons) if not why]
    opened = holm([_least_p(measured[at][1], tested[at]) for at in asked])
    sure = {at for at, is_open in zip(asked, opened, strict=True) if is_open}
    return tuple(
        Comparison(
            pair.base,
            pair.other,
            _parts(found, tested[at], sure=at in sure, why=reasons[at]),
            found[-1][3].processes,
            reasons[at],
        )
        for at, (pair, found) in enumerate(measured)
    )


def _parts(
    found: list[Found], tested: set[Part], *, sure: bool, why: str
) -> tuple[PartChange, ...]:
    """The parts of one of several comparisons, phases by Holm's procedure among themselves."""
    asked = [(part, time) for part, _, _, time in found if part in tested]
    told = dict(
        zip((part for part, _ in asked), holm([_p(time) for _, time in asked]), strict=True)
    )
    return tuple(
        PartChange(
            part,
            before,
            after,
            time,
            part in tested and part != "total",
            _decision(time, sure and told.get(part, True), why)
            if part in tested or part == "total"
            else "",
        )
        for part, before, after, time in found
    )


def _counts(found: list[Found], part: Part) -> bool:
    """Whether a phase takes at least 2 % of the step in one of the two cases."""
    _, whole_before, whole_after, _ = found[-1]
    return any(
        before.mean >= NEGLIGIBLE * whole_before.mean or after.mean >= NEGLIGIBLE * whole_after.mean
        for name, before, after, _ in found
        if name == part
    )


def _least_p(found: list[Found], tested: set[Part]) -> float:
    """The probability of the most extreme of a case's tested parts between equals (Bonferroni)."""
    return min(1.0, len(tested) * min(_p(time) for part, _, _, time in found if part in tested))


def _p(time: Ratio) -> float:
    return 1.0 if time.p is None else time.p


def _measured(base: CaseState, other: CaseState, *, in_turns: bool) -> list[Found]:
    """Every part that both have, the total last; empty where one of them has no figures."""
    found: list[Found] = []
    for phase in other.case.phases:
        pair = base.summaries.get(phase), other.summaries.get(phase)
        _take(found, phase, *pair, in_turns=in_turns)
    _take(found, "total", base.total, other.total, in_turns=in_turns)
    return found if found and found[-1][0] == "total" else []


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


def _not_judged(
    base: CaseState, other: CaseState, processes: int, failed_checks: Sequence[str]
) -> str:
    """Why nothing is said of a pair; "" where something may be."""
    if failed_checks:
        return f"not judged: failed check {', '.join(failed_checks)}"
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
    return any(holm([_p(time) for time in acted]))


def _decision(time: Ratio, opened: bool, why: str) -> Decision:
    """By its own interval once the test before it was passed; nothing below 1 % is a change."""
    if why:
        return "not judged"
    if not (opened and time.resolved and time.large):
        return "not distinguished"
    return "faster" if time.value < 1 else "slower"
