"""Peak memory of one step of every case, by phase."""

from __future__ import annotations

from llmprof.core.figures.memory_peaks import kind_of, peaks_of
from llmprof.core.report.case_groups import axis_cells, varying_axes
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import RunView
from llmprof.core.system.units import MIB

ALLOCATED = (
    "Highest level within each phase of one extra step, which is not timed, in allocated bytes: "
    "the blocks that CUDA's allocator gave out. Requested bytes are what the tensors in them need; "
    "the rest is the allocator's rounding."
)
RESIDENT = (
    "Highest level of the process's resident set within each phase of one extra step, which is not "
    "timed. It holds Python and torch too, and what an allocator keeps for later use doesn't show "
    "as a new need: on a CPU read these as upper bounds of the growth."
)


def peak_memory(view: RunView) -> Table | None:
    """Peak memory of one step, by phase, from a step that is not timed."""
    measured = [state for state in view.cases if state.memory is not None]
    if not measured:
        return None
    axes, kind = varying_axes(view), kind_of(measured)
    on_card = kind == "allocated"
    rows: list[tuple[Cell, ...]] = []
    for state in measured:
        assert state.memory is not None
        highest = {
            edge.phase: edge.peak_bytes for edge in state.memory.edges if state.has_part(edge.phase)
        }
        start = next((e.allocated_bytes for e in state.memory.edges if e.phase == "start"), None)
        peaks = peaks_of(state)
        rows.append(
            (
                state.case.model.name,
                state.case.mode,
                *axis_cells(state, axes),
                _mib(start),
                *(_mib(highest.get(phase)) for phase in PHASES),
                _mib(peaks.first),
                *((_mib(state.memory.peak_requested_bytes),) if on_card else ()),
            )
        )
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("start", "MiB"),
        *(Column(phase, "MiB") for phase in PHASES),
        Column(f"Peak {kind}", "MiB"),
        *((Column("Peak requested", "MiB"),) if on_card else ()),
    )
    notes = (f"{ALLOCATED if on_card else RESIDENT} Start: the level when the step begins.",)
    return Table("peak-memory", f"Peak {kind} memory by phase", columns, tuple(rows), notes)


def _mib(count: int | None) -> Cell:
    return None if count is None else Figure(count / MIB, 1.0)
