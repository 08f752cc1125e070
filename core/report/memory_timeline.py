"""Tables of recorded steps: peaks by context, phases, what is live at the peak, saved bytes."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.events import MemoryTimeline
from llmprof.core.figures.card_memory import memory_when_recorded
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.report.case_groups import axes_of, axis_cells
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.spec.axes import BY_FIELD, neutral
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB


def memory_tables(view: RunView) -> list[Table]:
    """All tables of the memory experiment, in the order in which they are read."""
    tables = [table for table in (peaks(view), reconciliation(view)) if table is not None]
    for state in view.cases:
        if (event := state.memory_timeline) is not None:
            tables += [memory_by_phase(state, event), largest_allocations(state, event)]
            tables += [saved(state, event)] if event.saved else []
    return tables


def peaks(view: RunView) -> Table | None:
    """M30-M31: peak requested memory by context length, and the change against fp32."""
    found = {state.case.key: state for state in view.cases if state.memory_timeline is not None}
    if not found:
        return None
    full = {
        _apart(state): state.memory_timeline.peak_bytes
        for state in found.values()
        if state.case.precision == "fp32" and state.memory_timeline is not None
    }
    shown = ("attention", "context_length", "precision")
    axes = axes_of(found.values(), *shown)
    rows = [_peak_row(state, full, axes) for state in found.values()]
    columns = (
        Column("Model", numeric=False),
        Column("Mode", numeric=False),
        Column("Attention", numeric=False),
        Column("Context"),
        Column("Precision", numeric=False),
        *(column for _, column in axes),
        Column("Peak", "MiB"),
        Column("Against fp32", "MiB"),
    )
    notes = ["The highest level of requested bytes in two recorded steps, after two of warm-up."]
    events = [state.memory_timeline for state in found.values()]
    if any(event is not None and event.source == "cpu tensors" for event in events):
        notes.append(
            "No card: tensors were followed on the CPU; what an op holds only inside is not seen."
        )
        if any(state.case.trace for state in found.values()):
            notes.append("No snapshot: only CUDA's allocator keeps what memory_viz shows.")
    return Table(
        "peak-by-context",
        "Peak memory by context length",
        columns,
        tuple(rows),
        tuple(notes),
        number="M30",
    )


def _apart(state: CaseState) -> str:
    return neutral(state.case, (BY_FIELD["precision"],)).key


def _peak_row(
    state: CaseState, full: dict[str, int], axes: list[tuple[str, Column]]
) -> tuple[Cell, ...]:
    assert state.memory_timeline is not None
    peak, case = state.memory_timeline.peak_bytes, state.case
    against = full.get(_apart(state))
    change = None if against is None or case.precision == "fp32" else (peak - against) / MIB
    return (
        case.model.name,
        case.mode,
        case.attention,
        case.context_length,
        case.precision,
        *axis_cells(case, axes),
        _mib(peak),
        Figure(change, 0.1) if change is not None else "",
    )


def memory_by_phase(state: CaseState, event: MemoryTimeline) -> Table:
    """M28-M29: peak and level after of every phase of the recorded steps."""
    columns = (
        Column("Step"),
        Column("Phase", numeric=False),
        Column("Peak", "MiB"),
        Column("Level after", "MiB"),
        Column("Of it above the start", "MiB"),
    )
    start = sum(event.before.values())
    rows = tuple(
        (p.step + 1, p.phase, _mib(p.peak_bytes), _mib(p.after_bytes), _mib(p.after_bytes - start))
        for p in event.phases
    )
    key = f"memory-phases-{state.index}"
    title = f"Memory by phase: {state.case.label}"
    return Table(key, title, columns, rows, tuple(_notes(event)), number="M28")


def _notes(event: MemoryTimeline) -> Iterable[str]:
    parts = ", ".join(
        f"{name} {format_cell(_mib(event.at_peak[name]))}"
        for name in CATEGORIES
        if name in event.at_peak
    )
    yield f"At the peak of {format_cell(_mib(event.peak_bytes))} MiB, in MiB: {parts}."
    if event.allocated_peak_bytes is not None:
        slack = event.allocated_peak_bytes - event.peak_bytes
        yield f"The allocator's blocks were {slack / MIB:,.1f} MiB larger than what was asked for."
    if event.overflow:
        yield "The recorder's ring was full: the start is lost, and with it perhaps the peak."
    own = event.requested_peak_bytes
    if own is not None and own != event.peak_bytes:
        yield f"The allocator itself counted a peak of {own / MIB:,.1f} MiB: they should agree."
    for line in event.missing:
        yield f"Missing: {line}."
    if event.snapshot is not None:
        where = f"artifacts/{event.snapshot} in the run's folder"
        yield f"Snapshot for pytorch.org/memory_viz: {where}."


def largest_allocations(state: CaseState, event: MemoryTimeline) -> Table:
    """M32: the largest allocations that were live at the peak."""
    columns = (
        Column("Size", "MiB"),
        Column("Blocks"),
        Column("Total", "MiB"),
        Column("Category", numeric=False),
        Column("Allocated in", numeric=False),
        Column("What", numeric=False),
    )
    rows = tuple(
        (
            _mib(live.size),
            live.count,
            _mib(live.size * live.count),
            live.category,
            live.phase or "before",
            live.what,
        )
        for live in event.largest
    )
    key = f"largest-allocations-{state.index}"
    title = f"Largest allocations at the peak: {state.case.label}"
    return Table(key, title, columns, rows, number="M32")


def saved(state: CaseState, event: MemoryTimeline) -> Table:
    """What modules save for backward: each storage once, parameters left out."""
    columns = (
        Column("Module", numeric=False),
        Column("Modules"),
        Column("Saved tensors"),
        Column("Saved, each", "MiB"),
        Column("Saved, all", "MiB"),
    )
    rows = tuple(
        (
            each.module,
            each.modules,
            each.tensors,
            _mib(each.bytes // max(1, each.modules)),
            _mib(each.bytes),
        )
        for each in event.saved
    )
    total = sum(each.bytes for each in event.saved)
    notes = (
        f"{total / MIB:,.1f} MiB in all; a storage counts for the module that saves it first.",
    )
    key = f"saved-{state.index}"
    title = f"Saved for backward: {state.case.label}"
    return Table(key, title, columns, rows, notes, folded=True)


def reconciliation(view: RunView) -> Table | None:
    """Context, allocated, cached and others against what the driver says is used."""
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, None] = {
        "The parts add up to what is used. The context holds loaded kernels and libraries too; "
        "the rest is in no process, or could not be told apart.": None
    }
    for state in view.cases:
        event = state.memory_timeline
        found = None if event is None else memory_when_recorded(event)
        if found is not None:
            parts = (found.context, found.allocated, found.cached, found.others, found.rest)
            rows.append((state.case.label, *map(_mib, parts), _mib(found.used)))
            if found.reason:
                notes.setdefault(f"{found.reason[0].upper()}{found.reason[1:]}.")
    if not rows:
        return None
    columns = (
        Column("Configuration", numeric=False),
        Column("CUDA context", "MiB"),
        Column("Allocated", "MiB"),
        Column("Cached", "MiB"),
        Column("Other processes", "MiB"),
        Column("Rest", "MiB"),
        Column("Used, says the driver", "MiB"),
    )
    return Table("reconciliation", "Where the card's memory is", columns, tuple(rows), tuple(notes))


def _mib(size: int | None) -> Cell:
    if size is not None and 0 < abs(size) < MIB // 200:
        return "under 0.01"
    return Figure(None if size is None else size / MIB, 0.1)
