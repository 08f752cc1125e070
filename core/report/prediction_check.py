"""Predicted beside measured memory, and advice where memory ran out."""

from __future__ import annotations

from llmprof.core.events import Environment, Predicted
from llmprof.core.predict.as_event import predicted_here, room_here
from llmprof.core.predict.fits import CONTEXT_HIGH, CONTEXT_LOW
from llmprof.core.report.advice import ADVICE_COLUMNS, ADVICE_NOTE, advice_cells
from llmprof.core.report.case_groups import status_word
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB


def prediction_for(state: CaseState, environment: Environment | None) -> Predicted | None:
    """The journal's prediction of a case, or the closed form's; None off CUDA."""
    if state.predicted is not None:
        return state.predicted
    if environment is None:
        return None
    return predicted_here(state.index, state.case, environment)


def error_percent(said: int, measured: int | None) -> float | None:
    """By how much a prediction is above what was measured, percent."""
    return None if not measured else 100 * (said / measured - 1)


def prediction_against(view: RunView) -> Table | None:
    """One row a case: requested bytes predicted and measured, and the band of allocated bytes."""
    rows, contexts = [], set()
    for state in view.cases:
        said = prediction_for(state, view.environment)
        if said is not None and (state.memory is not None or state.status == "oom"):
            rows.append(_row(state, said))
            contexts.add(said.context_bytes)
    if not rows:
        return None
    columns = (
        Column("Configuration", numeric=False),
        Column("Allocated, predicted from", "MiB"),
        Column("Allocated, predicted to", "MiB"),
        Column("Allocated, measured", "MiB"),
        Column("Requested, predicted", "MiB"),
        Column("Requested, measured", "MiB"),
        Column("Error of requested", "%"),
        Column("Verdict", numeric=False),
        Column("Status", numeric=False),
    )
    notes = (
        "Peaks of one step. Requested bytes, what the tensors need, do not depend on the "
        "allocator; allocated bytes, what the card gives, add its rounding and what it cannot "
        "split, and are predicted as a band.",
        *(_context_note(measured) for measured in sorted(contexts, key=lambda size: size or 0)),
    )
    return Table("predicted", "Memory: predicted and measured", columns, tuple(rows), notes)


def _context_note(measured: int | None) -> str:
    """What a verdict allows for the CUDA context."""
    if measured is None:
        low, high = CONTEXT_LOW // MIB, CONTEXT_HIGH // MIB
        return f"Verdicts assume a CUDA context of {low:,} to {high:,} MiB: it was not measured."
    size = round(measured / MIB)
    return f"Verdicts allow for a CUDA context of at least {size:,} MiB, as measured on this card."


def _row(state: CaseState, said: Predicted) -> tuple[Cell, ...]:
    step = state.memory
    requested = None if step is None else step.peak_requested_bytes
    allocated = step.peak_bytes if step is not None and step.on_card else None
    return (
        state.case.label,
        _mib(said.allocated_low),
        _mib(said.allocated_high),
        _mib(allocated),
        _mib(said.requested_bytes),
        _mib(requested),
        Figure(error_percent(said.requested_bytes, requested), 0.001),
        said.verdict or "",
        status_word(state),
    )


def _mib(size: int | None) -> Figure:
    return Figure(None if size is None else size / MIB, 0.1)


def out_of_memory_advice(view: RunView) -> Table | None:
    """Commands that do fit, for every case that ran out of memory or was not tried for it."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        environment = state.environment or view.environment
        room = None if environment is None else room_here(environment)
        if state.status == "oom" and room is not None:
            rows += [(state.case.label, *cells) for cells in advice_cells(state.case, room)]
    if not rows:
        return None
    columns = (Column("Ran out of memory", numeric=False), *ADVICE_COLUMNS)
    return Table("advice", "What fits instead", columns, tuple(rows), (ADVICE_NOTE,), number="M13")
