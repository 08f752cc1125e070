"""The coverage grid: which cells there are figures for, and under which number."""

from __future__ import annotations

from collections import Counter

from llmprof.core.coverage import cell, to_resume
from llmprof.core.report.alike import axes_of
from llmprof.core.report.groups import axis_value
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.results import CaseState, RunView


def coverage(view: RunView) -> Table | None:
    """One row a configuration, its last varying axis across; cells name their case's number."""
    if len(view.cases) < 2:
        return None
    axes = [(name, column.header) for name, column in axes_of(view.cases)]
    if len({state.case.mode for state in view.cases}) > 1:
        axes.append(("mode", "Mode"))
    if len({state.case.probe for state in view.cases}) > 1:
        axes.append(("probe", "Probe"))
    across = axes.pop() if axes else None
    found: dict[tuple[Cell, ...], dict[str, CaseState]] = {}
    heads: dict[str, None] = {}
    for state in view.cases:
        row = (state.case.model.name, *(_value(state, name) for name, _ in axes))
        head = "Case" if across is None else str(_value(state, across[0]))
        heads.setdefault(head)
        found.setdefault(row, {})[head] = state
    columns = (
        Column("Model Size", numeric=False),
        *(Column(header, numeric=False) for _, header in axes),
        *(Column(_heading(head, across), numeric=False) for head in heads),
    )
    rows = tuple(
        (*map(_text, row), *(_word(states.get(head)) for head in heads))
        for row, states in found.items()
    )
    return Table("coverage", "Coverage", columns, rows, (summary(view),))


def summary(view: RunView) -> str:
    """How many cells are done and what became of the others."""
    counts = Counter(cell(state) for state in view.cases)
    parts = ", ".join(f"{count} {word}" for word, count in counts.items())
    text = f"{len(view.cases)} cells: {parts}. Numbers in brackets are the cases' numbers."
    if to_resume(view):
        text += f" llmprof resume {view.run_id} measures what is missing or was killed."
    return text


def _value(state: CaseState, name: str) -> Cell:
    return (
        state.case.mode
        if name == "mode"
        else (state.case.probe if name == "probe" else axis_value(state.case, name))
    )


def _heading(head: str, across: tuple[str, str] | None) -> str:
    return head if across is None else f"{across[1]} {head}"


def _text(value: Cell) -> Cell:
    return value if isinstance(value, str) else str(value)


def _word(state: CaseState | None) -> str:
    return "" if state is None else f"{cell(state)} ({state.index + 1})"
