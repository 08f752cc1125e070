"""M09: what warm-up changes, each cell in a process of its own."""

from __future__ import annotations

from llmprof.core.ratio import ratio
from llmprof.core.report.alike import alike, axes_of
from llmprof.core.report.groups import axis_cells, status_word
from llmprof.core.report.sentences import ms, ref, times
from llmprof.core.report.table import Cell, Column, Figure, Table, format_number
from llmprof.core.results import CaseState, RunView


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
            *axis_cells(state.case, axes),
            state.case.warmup_steps,
            *_figures(state, _longest(group)),
        )
        for group in groups
        for state in group
    )
    notes = (
        "Each cell ran in a fresh process. The first step is the process's first, whether it "
        "counts as warm-up or as measured; steady is the median of the longest warm-up's steps.",
        *(sentence for group in groups for sentence in sentences(group)),
    )
    return Table("M09", "Effect of warm-up", columns, rows, notes)


def warmup_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases that differ in their warm-up alone, where there are several."""
    timing = [s for s in view.cases if s.case.probe == "timing" and not s.case.warmup_auto]
    return [group for group in alike(timing, warmup_steps=0) if len(group) > 1]


def first_step_ms(state: CaseState) -> float | None:
    """Total of the first step that the case's process ran; a compiled case's comes after that."""
    steps = state.warmup if len(state.warmup) else state.measured
    return steps.row(0).total_ms if len(steps) else None


def sentences(group: list[CaseState]) -> list[str]:
    """What a group of cells shows: how much the cold step adds, and from when it is gone."""
    longest = _longest(group)
    if longest.total is None:
        return []
    lines = []
    name = f"{longest.case.model.name}, {longest.case.mode}"
    cold = next((s for s in group if s.case.warmup_steps == 0 and s.total is not None), None)
    first = None if cold is None else first_step_ms(cold)
    change = None if cold is None else ratio(cold.total, longest.total)
    if cold is not None and cold.total is not None and first is not None and change is not None:
        lines.append(
            f"{name}: without warm-up the mean is {format_number(change.value, 0.01)} × that after "
            f"{longest.case.warmup_steps} steps ({ms(cold.total)} against {ms(longest.total)}), "
            f"since the first step took {format_number(first)} ms, "
            f"{format_number(first / longest.total.median, 0.1)} × a steady one "
            f"{ref(cold, longest)}."
        )
    for state in group:
        found = ratio(state.total, longest.total)
        if state.case.warmup_steps == 0 or state is longest or found is None:
            continue
        verdict = "differs from" if found.changed else "cannot be told from"
        lines.append(
            f"{name}: {state.case.warmup_steps} warm-up "
            f"{'step' if state.case.warmup_steps == 1 else 'steps'} {verdict} "
            f"{longest.case.warmup_steps} ({times(found)}) {ref(state, longest)}."
        )
    return lines


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
        Figure(state.total.std, state.total.ci95),
        None if found is None else Figure(found.value, found.half or 0.01),
        Figure(first),
        None if first is None or not steady else Figure(first / steady, 0.1),
    )
