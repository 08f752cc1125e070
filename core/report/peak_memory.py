"""Peak memory of one step of every case, by phase."""

from __future__ import annotations

from llmprof.core.report.case_groups import axis_cells, varying_axes
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import RunView
from llmprof.core.system.units import MIB


def peak_memory(view: RunView) -> Table | None:
    """Peak memory of one step, by phase, from a step that is not timed."""
    measured = [state for state in view.cases if state.memory is not None]
    if not measured:
        return None
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    for state in measured:
        assert state.memory is not None
        peaks = {edge.phase: edge.peak_bytes for edge in state.memory.edges}
        start = next((e.allocated_bytes for e in state.memory.edges if e.phase == "start"), None)
        rows.append(
            (
                state.case.model.name,
                state.case.mode,
                *axis_cells(state.case, axes),
                _mib(start),
                *(_mib(peaks.get(phase)) for phase in PHASES),
                _mib(state.memory.peak_bytes),
            )
        )
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("before", "MiB"),
        *(Column(phase, "MiB") for phase in PHASES),
        Column("Peak", "MiB"),
    )
    source = measured[0].memory.source if measured[0].memory is not None else ""
    notes = [f"Highest level within each phase of one extra step ({source})."]
    if source == "process resident set":
        notes.append(
            "The resident set holds Python and torch too, and what an allocator keeps for later "
            "use doesn't show as a new need: on a CPU read these as upper bounds of the growth."
        )
    return Table("peak-memory", "Peak memory", columns, tuple(rows), tuple(notes))


def _mib(count: int | None) -> Cell:
    return None if count is None else Figure(count / MIB, 1.0)
