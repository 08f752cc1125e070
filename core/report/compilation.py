"""M41: whole models, eager against each compile mode."""

from __future__ import annotations

from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import (
    decision_cell,
    grouped_alike,
    judging_note,
    ratio_cells,
)
from llmprof.core.report.repayment import steps_until_repaid
from llmprof.core.report.sentences import peak_bytes, ref, why_not
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary
from llmprof.core.system.text import counted
from llmprof.core.system.units import MIB

SHOWN: tuple[Phase, ...] = ("forward", "loss", "backward", "optimizer")


def compilation(view: RunView) -> Table | None:
    """A row for each compile mode of each size and mode, the eager one first."""
    subject = subject_of(view)
    groups = compile_groups(subject)
    if not groups:
        return None
    states = [state for group in groups for state in group]
    axes = axes_of(states, "compile")
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("Compile", numeric=False),
        *(Column(phase.capitalize(), "ms") for phase in SHOWN),
        Column("Step", "ms"),
        Column("Speed-up", "×"),
        Column("95 % interval", "×", numeric=False),
        Column("Compile + first step", "s"),
        Column("Steps until repaid"),
        Column("Peak memory", "MiB"),
        Column("Graphs"),
        Column("Breaks"),
        Column("First break", numeric=False),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (
            state.case.model.name,
            state.case.mode,
            *axis_cells(state, axes),
            BY_FIELD["compile"].shown(state.case.compile),
            *_figures(subject, state, group[0]),
        )
        for group in groups
        for state in group
    )
    found = [
        each
        for base, *others in groups
        for state in others
        if (each := subject.compare(base, state)) is not None
    ]
    from_eager = "Speed-ups are from the eager row of a group to each of the others."
    notes = (
        f"{from_eager} {judging_note(found)}".rstrip(),
        "Compile times are cold, each cell with an empty cache, and are in no mean. Repaid: the "
        "compile time over what a step gains, only where the step's change is judged and told from "
        "equal; graphs are those of the forward.",
        *(line for group in groups for line in _broken(group)),
        *why_not(states),
    )
    return Table("compile", "Compiled against eager", columns, rows, notes, number="M41")


def compile_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases of whole models that differ in compilation alone, the eager one first."""
    timing = [state for state in view.cases if state.case.probe == "timing"]
    groups = [
        sorted(group, key=lambda state: state.case.compile is not None)
        for group in grouped_alike(timing, BY_FIELD["compile"])
    ]
    return [group for group in groups if len(group) > 1 and group[0].case.compile is None]


def _figures(subject: Subject, state: CaseState, base: CaseState) -> tuple[Cell, ...]:
    seen, total = state.observed, state.total
    compiled = state.case.compile is not None
    if total is None:
        cells: tuple[Cell, ...] = (*(None for _ in SHOWN), status_word(state))
        return (*cells, None, None, None, None, None, None, None, "", "no figure")
    found = None if state is base else subject.compare(base, state)
    peak = peak_bytes(state)
    cold = None if seen is None else seen.compile_ms
    return (
        *(_mean(state.summaries.get(phase)) for phase in SHOWN),
        Figure(total.mean, total.ci95),
        *(
            (Figure(1.0, 0.01), "")
            if state is base
            else ratio_cells(None if found is None else found.total.speedup)
        ),
        "eager" if not compiled else Figure(None if cold is None else cold / 1e3, 0.1),
        "" if not compiled or found is None else steps_until_repaid(found),
        None if peak is None else Figure(peak / MIB, 10.0),
        None if seen is None else seen.graphs,
        None if seen is None else seen.graph_breaks,
        "" if seen is None else seen.first_break or "",
        "baseline" if state is base else decision_cell(found),
    )


def _mean(found: Summary | None) -> Cell:
    return None if found is None else Figure(found.mean, found.ci95)


def _broken(group: list[CaseState]) -> list[str]:
    return [
        f"{state.case.label}: {counted(state.observed.graph_breaks, 'graph break')}, the first: "
        f"{state.observed.first_break} {ref(state)}."
        for state in group
        if state.observed is not None and state.observed.graph_breaks
    ]
