"""M09: what warm-up changes, each cell in a process of its own."""

from __future__ import annotations

from llmprof.core.figures.comparison import ONE_PROCESS
from llmprof.core.report.case_groups import axes_of, axis_cells, axis_value, status_word
from llmprof.core.report.comparisons import grouped_alike, times
from llmprof.core.report.sentences import ms, ref, what_std_is
from llmprof.core.report.table import Cell, Column, Figure, Table, spread_figure
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import PHASES, Phase
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.ratio import Ratio, ratio
from llmprof.core.system.numbers import format_number, significant

OTHERS_ARE_STEADY = 1.1
COLD_FIRST_STEP = 1.5  # times a steady step: then the first step explains a higher mean
TOLD: tuple[Phase, ...] = ("forward", "backward", "optimizer")


def warmup(view: RunView) -> Table | None:
    """M09: mean and std by warm-up, the ratio to the longest, and what the first step cost."""
    groups = warmup_groups(view)
    if not groups:
        return None
    states = [state for group in groups for state in group]
    axes = axes_of(states, "warmup_steps")
    longest = {_longest(group).case.warmup_steps for group in groups}
    reference = f"Ratio to {longest.pop()}" if len(longest) == 1 else "Ratio to longest"
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("Warm-up", "steps"),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        Column(reference, "×"),
        Column("First step", "ms"),
        Column("First / steady", "×"),
    )
    rows = tuple(
        (
            state.case.model.name,
            state.case.mode,
            *axis_cells(state, axes),
            state.case.warmup_steps,
            *_figures(state, _longest(group)),
        )
        for group in groups
        for state in group
    )
    notes = (
        "Each cell ran in a fresh process. The first step is the process's first, whether it "
        "counts as warm-up or as measured; steady is the median of the longest warm-up's steps. "
        f"{what_std_is(state.total for group in groups for state in group)}",
        *(sentence for group in groups for sentence in sentences(group, axes)),
    )
    return Table("warmup", "Effect of warm-up", columns, rows, notes, number="M09")


def warmup_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases that differ in their warm-up alone, where there are several."""
    timing = [s for s in view.cases if s.case.probe == "timing" and not s.case.warmup_auto]
    return [group for group in grouped_alike(timing, BY_FIELD["warmup_steps"]) if len(group) > 1]


def first_step_ms(state: CaseState) -> float | None:
    """Total of the first step that the case's process ran; a compiled case's comes after that."""
    steps = state.warmup if len(state.warmup) else state.measured
    return steps.row(0).total_ms if len(steps) else None


def first_phases_ms(state: CaseState) -> dict[Phase, float]:
    """The same phase by phase."""
    steps = state.warmup if len(state.warmup) else state.measured
    times = steps.row(0).device_ms if len(steps) else ()
    return {phase: ms for phase, ms in zip(PHASES, times, strict=False) if ms is not None}


def cold_phases(state: CaseState, longest: CaseState) -> tuple[Phase, ...]:
    """The phases that took much longer in the process's first step than in a warm one."""
    first = first_phases_ms(state)
    return tuple(
        phase
        for phase in TOLD
        if (warm := longest.summaries.get(phase)) is not None
        and first.get(phase, 0.0) > COLD_FIRST_STEP * warm.mean
    )


def is_longer(phase: Phase, state: CaseState, longest: CaseState) -> bool:
    """Whether a phase's mean lies beyond what counts as steady after the longest warm-up."""
    found, warm = (each.summaries.get(phase) for each in (state, longest))
    return found is not None and warm is not None and found.mean > OTHERS_ARE_STEADY * warm.mean


def sentences(group: list[CaseState], axes: list[tuple[str, Column]]) -> list[str]:
    """What a group of cells shows: how much the cold step adds, and from when it is gone.

    The group is named by where it stands on the axes on which groups differ, too.
    """
    longest = _longest(group)
    places = (_place(longest, field) for field, _ in axes)
    name = ", ".join((longest.case.model.name, longest.case.mode, *places))
    return [
        f"{name}: {line}"
        for state in group
        if state is not longest and (line := _against(state, longest)) is not None
    ]


def _place(state: CaseState, field: str) -> str:
    """bf16, context 128."""
    axis = BY_FIELD[field]
    value = str(axis_value(state, field))
    return value if axis.values else f"{axis.label.lower()} {value}"


def _against(state: CaseState, longest: CaseState) -> str | None:
    """What a shorter warm-up changed, and what its cold first step has to do with it."""
    found, first = ratio(state.total, longest.total), first_step_ms(state)
    if found is None or first is None or state.total is None or longest.total is None:
        return None
    count = state.case.warmup_steps
    which = {0: "without warm-up", 1: "after one warm-up step"}.get(
        count, f"after {count} warm-up steps"
    )
    cold = first / longest.total.median
    where = ref(state, longest)
    ratio_to = f"{significant(found.value)} ×"
    figures = f"{ms(state.total)} against {ms(longest.total)}"
    reached = f"that after {longest.case.warmup_steps}"
    if count == 0 and cold > COLD_FIRST_STEP and _first_explains(state, first, longest.total.mean):
        return (
            f"{which} the mean is {ratio_to} {reached} ({figures}), since "
            f"the first step took {format_number(first)} ms, {significant(cold, 2)} × a steady "
            f"one{_where_cold(state, longest)}; the median of its steps is "
            f"{format_number(state.total.median)} ms {where}."
        )
    if not found.judged:
        return f"{which} the mean is {times(found)} {reached} ({figures}; {ONE_PROCESS}) {where}."
    if not (found.resolved and found.large):
        return f"{which} the mean is not distinguished from {reached} ({times(found)}) {where}."
    return f"{which} the mean is {times(found)} {reached} ({figures}) {where}."


def _where_cold(state: CaseState, longest: CaseState) -> str:
    """(forward 317.4 ms for 23.6 ms, optimizer 83.8 ms for 6.2 ms): the phases that were cold."""
    first = first_phases_ms(state)
    told = ", ".join(
        f"{phase} {format_number(first[phase])} ms for {ms(longest.summaries[phase])}"
        for phase in cold_phases(state, longest)
    )
    return f" ({told})" if told else ""


def _first_explains(state: CaseState, first_ms: float, steady_ms: float) -> bool:
    """Whether the other steps are as long as steady ones: then the first makes the difference."""
    if state.total is None or state.total.n < 2:
        return False
    others = (state.total.n * state.total.mean - first_ms) / (state.total.n - 1)
    return others < OTHERS_ARE_STEADY * steady_ms


def _ratio_figure(found: Ratio) -> Figure:
    """Between single processes a ratio has no more than three digits."""
    least = 0.01 * found.value
    return Figure(found.value, max(found.half or least, least))


def _longest(group: list[CaseState]) -> CaseState:
    return max(group, key=lambda state: state.case.warmup_steps)


def _figures(state: CaseState, longest: CaseState) -> tuple[Cell, ...]:
    if state.total is None:
        return (status_word(state),) * 5
    found = ratio(state.total, longest.total)
    first = first_step_ms(state)
    steady = None if longest.total is None else longest.total.median
    return (
        Figure(state.total.mean, state.total.ci95),
        spread_figure(state.total.std, state.total.ci95),
        None if found is None else _ratio_figure(found),
        Figure(first),
        None if first is None or not steady else Figure(first / steady, 0.1),
    )
