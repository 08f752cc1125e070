"""Cases that are alike but for some fields: what a comparison may put side by side."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.spec.axes import SWITCHES, Axis, apart, neutral
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import TURN_STEPS
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import Ratio, paired_ratio, ratio


def grouped_alike(states: Iterable[CaseState], *axes: Axis) -> list[list[CaseState]]:
    """Cases in groups whose members differ on some axes alone, in order."""
    found: dict[str, list[CaseState]] = {}
    for state in states:
        found.setdefault(neutral(state.case, axes).key, []).append(state)
    return list(found.values())


def compare(top: CaseState, bottom: CaseState) -> Ratio | None:
    """top's mean step over bottom's: turn by turn where both took turns, else by their means."""
    if top.case.interleaved and bottom.case.interleaved:
        series = top.measured.total_ms(), bottom.measured.total_ms()
        return paired_ratio(*series, TURN_STEPS) or ratio(top.total, bottom.total)
    return ratio(top.total, bottom.total)


def switch_name(case: Case, base: Case) -> str:
    """What a case switches on or off against another: bf16 + SDPA + torch.compile."""
    names = [axis.named(axis.of(case)) for axis in apart(case, base, SWITCHES)]
    return " + ".join(names) or "baseline"
