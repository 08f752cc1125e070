"""What the kernel profiler itself cost: the same steps with and without it."""

from __future__ import annotations

from llmprof.core.figures.profile_wholes import twin
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.ratio import Ratio, ratio
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import as_given

LEAST_SHARE = 0.01  # of the plain step: what takes less says nothing of the profiler's cost
CLOCKS = (
    "Both times of wall are the host's clock around each step; the timeline's are the profiler's"
    " own timestamps of the same steps, so that the two differ a little."
)
NOTES = (
    "Means; the plain steps ran in a process that never had a profiler on.",
    "The interval is that of the ratio of the two means, symmetric on logarithms (delta method,"
    " Welch's degrees of freedom). Not distinguished: it holds 0 %. Phases that take less than"
    f" {as_given(100 * LEAST_SHARE)} % of the plain step are left out.",
)
SINGLE = (
    "Of single processes it is the interval of their steps; two processes of equal code differ by"
    " more, and where a profiled step reads faster that is why: no profiler makes a step shorter."
)


def overhead_table(view: RunView) -> Table | None:
    """M19: each phase with and without the kernel profiler, in processes of their own."""
    rows: list[tuple[Cell, ...]] = []
    single = False
    for state in view.cases:
        plain = twin(view, state) if state.case.probe == "kernels" else None
        if plain is not None and len(state.measured) and len(plain.measured):
            rows += _rows(state, plain)
            found = ratio(state.wall, plain.wall)
            single |= found is None or not found.judged
    columns = (
        Column("Case", numeric=False),
        Column("Phase", numeric=False),
        Column("Plain", "ms"),
        Column("Profiled", "ms"),
        Column("Overhead", "%"),
        Column("95 % interval from", "%"),
        Column("95 % interval to", "%"),
        Column("Verdict", numeric=False),
    )
    title = "Overhead of the kernel profiler"
    timeline = any(state.timeline is not None for state in view.cases)
    notes = (*NOTES, *((SINGLE,) if single else ()), *((CLOCKS,) if timeline else ()))
    return Table("overhead", title, columns, tuple(rows), notes, number="M19") if rows else None


def _rows(state: CaseState, plain: CaseState) -> list[tuple[Cell, ...]]:
    label = state.case.label
    least = 0.0 if plain.total is None else LEAST_SHARE * plain.total.mean
    phases = [
        _row(label, phase, found, state.summaries.get(phase))
        for phase in state.case.phases
        if (found := plain.summaries.get(phase)) is not None and found.mean >= least
    ]
    return [*phases, _row(label, "wall", plain.wall, state.wall)]


def _row(
    label: str, phase: str, plain: Summary | None, profiled: Summary | None
) -> tuple[Cell, ...]:
    found = ratio(profiled, plain)
    more = None if found is None else 100 * (found.value - 1)
    half = None if found is None or found.half is None else 100 * found.half
    ends = (None, None) if found is None else (found.low, found.high)
    return (
        label,
        phase,
        None if plain is None else plain.mean,
        None if profiled is None else profiled.mean,
        Figure(more, half or 1.0),
        *(Figure(None if end is None else 100 * (end - 1), half or 1.0) for end in ends),
        overhead_verdict(found),
    )


def overhead_verdict(found: Ratio | None) -> str:
    """What may be said of profiled over plain."""
    if found is None:
        return "n/a"
    if found.half is None:
        return "n/a: one step"
    if not found.resolved:
        return "not distinguished"
    return "slower" if found.value > 1 else "faster"
