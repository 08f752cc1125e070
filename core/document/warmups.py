"""What warm-up changes: each cell in a process of its own, beside the longest warm-up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from llmprof.core.document.configurations import (
    OF_MODEL,
    configuration_cells,
    source_cells,
    source_columns,
)
from llmprof.core.document.quotes import KeyedTable, Sentence, joined, keyed
from llmprof.core.document.sources import Source
from llmprof.core.report.table import Cell, Column, Figure, spread_figure
from llmprof.core.report.warmup import (
    TOLD,
    cold_phases,
    first_phases_ms,
    first_step_ms,
    warmup_groups,
)
from llmprof.core.state.view import CaseState

COLUMNS = (
    Column("Warm-up", "steps"),
    Column("Mean", "ms"),
    Column("Std Dev", "ms"),
    Column("Median", "ms"),
    Column("First step", "ms"),
    *(Column(phase.capitalize(), "ms") for phase in TOLD),
    *(Column(f"First {phase}", "ms") for phase in TOLD),
)
NOTES = (
    "Each cell is a fresh process; its first step is the process's first, warm-up or measured. "
    "Forward, backward and optimizer: means of the measured steps, and beside them those of the "
    "first step.",
)
Group = tuple[Source, list[CaseState]]


def warmup_cells(sources: Sequence[Source]) -> list[Group]:
    """Groups of cases that differ in their warm-up alone and have figures, shortest first."""
    found = []
    for source in sources:
        for group in warmup_groups(source.subject.as_one):
            ran = sorted(
                (state for state in group if state.total is not None),
                key=lambda state: state.case.warmup_steps,
            )
            if len(ran) > 1:
                found.append((source, ran))
    return found


def warmup_table(cells: Sequence[Group], sources: Sequence[Source]) -> KeyedTable | None:
    """A row a cell."""
    head = source_columns(sources)
    return keyed(
        "warm-up",
        "Effect of warm-up",
        (*head, *OF_MODEL, *COLUMNS),
        (
            (
                warmup_key(source, state),
                (
                    *source_cells(source, head),
                    *configuration_cells(state),
                    state.case.warmup_steps,
                    Figure(state.total.mean, state.total.ci95),
                    spread_figure(state.total.std, state.total.ci95),
                    Figure(state.total.median, state.total.ci95),
                    Figure(first_step_ms(state)),
                    *_phase_cells(state),
                ),
            )
            for source, group in cells
            for state in group
            if state.total is not None
        ),
        NOTES,
    )


def _phase_cells(state: CaseState) -> tuple[Cell, ...]:
    means = (state.summaries.get(phase) for phase in TOLD)
    first = first_phases_ms(state)
    return (
        *(None if found is None else Figure(found.mean, found.ci95) for found in means),
        *(Figure(first.get(phase)) for phase in TOLD),
    )


def warmup_key(source: Source, state: CaseState) -> Hashable:
    """The row of a cell."""
    return source.name, state.index


def cold_told(table: KeyedTable, source: Source, group: Sequence[CaseState]) -> Sentence:
    """The phases in which the first step was cold: (forward 317.4 ms, 23.57 ms warm)."""
    told = [
        table.told(
            warmup_key(source, group[0]),
            f"{phase} {{First {phase}}} ms, {{warm}} ms warm",
            warm=(table.quote(warmup_key(source, group[-1]), phase.capitalize()),),
        )
        for phase in cold_phases(group[0], group[-1])
    ]
    return (" (cold: ", *joined(told, "; "), ")") if told else ()
