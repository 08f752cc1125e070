"""The coverage grid: which cells there are figures for, and under which number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from llmprof.core.figures.outcomes import outcome_of, to_resume
from llmprof.core.figures.replicates import configurations, processes_of
from llmprof.core.report.case_groups import axis_value
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.spec.axes import varying
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import counted


@dataclass(frozen=True)
class OutcomeGrid:
    """A run's cases as rows and columns: `down` names the rows' labels, `across` the heads.

    A row is its labels and its cases by head; a head that a row has no case for is a hole.
    """

    down: tuple[str, ...]
    across: str
    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], dict[str, CaseState]], ...]


def grid_of(cases: tuple[CaseState, ...], least: int = 2) -> OutcomeGrid | None:
    """The grid of a run with at least so many cases; the axis of most values lies across."""
    if len(cases) < least:
        return None
    axes = {axis.field: axis.label for axis in varying(state.case for state in cases)}
    if len({state.case.probe for state in cases}) > 1:
        axes["probe"] = "Probe"
    across = max(axes, key=lambda name: (len({_value(s, name) for s in cases}), name == "mode"),
                 default="")  # fmt: skip
    down = [name for name in axes if name != across]
    heads: dict[str, None] = {}
    found: dict[tuple[str, ...], dict[str, CaseState]] = {}
    for state in cases:
        row = (state.case.model.name, *(_value(state, name) for name in down))
        head = _value(state, across) if across else "case"
        heads.setdefault(head)
        found.setdefault(row, {})[head] = state
    return OutcomeGrid(
        ("Model Size", *(axes[name] for name in down)),
        axes.get(across, ""),
        tuple(heads),
        tuple(found.items()),
    )


def coverage(view: RunView) -> Table | None:
    """One row a configuration, an axis across; cells name the numbers of their cases."""
    if len(view.cases) < 2:
        return None
    grid = grid_of(configurations(view.cases), least=1)
    if grid is None:
        return None
    columns = (
        *(Column(header, numeric=False) for header in grid.down),
        *(Column(f"{grid.across} {head}".strip(), numeric=False) for head in grid.heads),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (*labels, *(_word(states.get(head)) for head in grid.heads)) for labels, states in grid.rows
    )
    return Table("coverage", "Coverage", columns, rows, (coverage_summary(view),))


def coverage_summary(view: RunView) -> str:
    """How many cells are done and what became of the others."""
    counts = Counter(outcome_of(state) for state in view.cases)
    parts = ", ".join(f"{count} {word}" for word, count in counts.items())
    cells, cases = len(configurations(view.cases)), len(view.cases)
    said = counted(cells, "cell")
    if cases != cells:
        said += f", {counted(cases, 'process')} in all"
    text = f"{said}: {parts}. Numbers in brackets are the cases' numbers."
    if to_resume(view):
        text += (
            f" llmprof resume {view.run_id} measures what is missing, stopped or killed; of a run "
            "in a file, llmprof resume FILE."
        )
    return text


def _value(state: CaseState, name: str) -> str:
    return state.case.probe if name == "probe" else str(axis_value(state, name))


def _word(state: CaseState | None) -> str:
    if state is None:
        return ""
    found: dict[str, list[int]] = {}
    for each in processes_of(state):
        found.setdefault(outcome_of(each), []).append(each.index + 1)
    return "; ".join(f"{word} ({', '.join(map(str, at))})" for word, at in found.items())
