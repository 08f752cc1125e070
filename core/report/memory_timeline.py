"""Tables of recorded steps: peaks by context, phases, what is live at the peak, saved bytes."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.events import MemoryTimeline
from llmprof.core.figures.card_memory import memory_when_recorded
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.report.case_groups import axes_of, axis_cells, axis_value
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.spec.axes import BY_FIELD, neutral
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import counted
from llmprof.core.system.units import MIB

WHICH_BYTES = (
    "Allocated bytes are the blocks that CUDA's allocator gave out, requested bytes what the "
    "tensors in them need."
)


def memory_tables(view: RunView) -> list[Table]:
    """All tables of the memory experiment, in the order in which they are read."""
    tables = [table for table in (peaks(view), reconciliation(view)) if table is not None]
    for state in view.cases:
        if (event := state.memory_timeline) is not None:
            tables += [memory_by_phase(state, event), largest_allocations(state, event)]
            tables += [saved(state, event)] if event.saved else []
    return tables


def peaks(view: RunView) -> Table | None:
    """M30-M31: peak memory by context length, allocated and requested, and against fp32."""
    found = {state.case.key: state for state in view.cases if state.memory_timeline is not None}
    if not found:
        return None
    full = {
        _apart(state): _levels(state) for state in found.values() if state.case.precision == "fp32"
    }
    axes = axes_of(found.values(), "attention", "context_length", "precision")
    on_card = any(_levels(state)[0] is not None for state in found.values())
    kinds = ("allocated", "requested") if on_card else ("requested",)
    columns = (
        Column("Model", numeric=False),
        Column("Mode", numeric=False),
        Column("Attention", numeric=False),
        Column("Context", "tokens"),
        Column("Precision", numeric=False),
        *(column for _, column in axes),
        *(Column(f"Peak {kind}", "MiB") for kind in kinds),
        *(Column(f"{kind.capitalize()}, change from fp32", "MiB") for kind in kinds),
    )
    rows = tuple(_peak_row(state, full, axes, on_card=on_card) for state in found.values())
    notes = tuple(_peak_notes(list(found.values())))
    return Table(
        "peak-by-context", "Peak memory by context length", columns, rows, notes, number="M30"
    )


def _peak_notes(states: list[CaseState]) -> Iterable[str]:
    recorded = dict.fromkeys((s.case.measure_steps, s.case.warmup_steps) for s in states)
    told = "; ".join(
        f"{counted(steps, 'recorded step')} after {counted(warm, 'step')} of warm-up"
        for steps, warm in recorded
    )
    if any(_levels(state)[0] is not None for state in states):
        yield f"Highest levels within {told}. {WHICH_BYTES}"
        return
    yield (
        f"Highest levels of requested bytes, what the tensors need, within {told}. No card: "
        "tensors were followed on the CPU; what an op holds only inside is not seen."
    )
    if any(state.case.trace for state in states):
        yield "No snapshot: only CUDA's allocator keeps what memory_viz shows."


def _apart(state: CaseState) -> str:
    return neutral(state.case, (BY_FIELD["precision"],)).key


Levels = tuple[int | None, int | None]  # allocated and requested bytes


def _levels(state: CaseState) -> Levels:
    event = state.memory_timeline
    return (None, None) if event is None else (event.allocated_peak_bytes, event.peak_bytes)


def _peak_row(
    state: CaseState,
    full: dict[str, Levels],
    axes: list[tuple[str, Column]],
    *,
    on_card: bool,
) -> tuple[Cell, ...]:
    case, levels = state.case, _levels(state)
    against = full.get(_apart(state), (None, None))
    changes: list[Cell] = [
        "" if level is None or base is None or case.precision == "fp32" else _mib(level - base)
        for level, base in zip(levels, against, strict=True)
    ]
    first = 0 if on_card else 1
    return (
        case.model.name,
        case.mode,
        axis_value(state, "attention"),
        case.context_length,
        case.precision,
        *axis_cells(state, axes),
        *(_mib(level) for level in levels[first:]),
        *changes[first:],
    )


def memory_by_phase(state: CaseState, event: MemoryTimeline) -> Table:
    """M28-M29: peak and level after of every phase of the recorded steps."""
    columns = (
        Column("Step"),
        Column("Phase", numeric=False),
        Column("Peak requested", "MiB"),
        Column("Requested after it", "MiB"),
        Column("Above the start", "MiB"),
    )
    start = sum(event.before.values())
    rows = tuple(
        (p.step + 1, p.phase, _mib(p.peak_bytes), _mib(p.after_bytes), _mib(p.after_bytes - start))
        for p in event.phases
        if state.has_part(p.phase)
    )
    key = f"memory-phases-{state.index}"
    title = f"Requested memory by phase: {state.case.label}"
    return Table(key, title, columns, rows, tuple(_notes(event)), number="M28")


def _notes(event: MemoryTimeline) -> Iterable[str]:
    peak = format_cell(_mib(event.peak_bytes))
    if event.allocated_peak_bytes is not None:
        slack = format_cell(_mib(event.allocated_peak_bytes - event.peak_bytes))
        yield (
            f"Peak allocated {format_cell(_mib(event.allocated_peak_bytes))} MiB, peak requested "
            f"{peak} MiB: the allocator's blocks were {slack} MiB larger than what was asked for "
            "in them. All else here is in requested bytes."
        )
    else:
        yield f"Peak requested {peak} MiB."
    yield (
        "Peak requested: the highest level within the phase. Requested after it: the level at the "
        "phase's end. Above the start: that level less the one before the first recorded step."
    )
    yield f"At the peak, in MiB: {_parts(event.at_peak)}."
    yield from _new_baseline(event)
    if event.overflow:
        yield "The recorder's ring was full: the start is lost, and with it perhaps the peak."
    own = event.requested_peak_bytes
    if own is not None and own != event.peak_bytes:
        yield (
            f"The allocator itself counted a peak of {format_cell(_mib(own))} MiB requested: they "
            "should agree."
        )
    for line in event.missing:
        yield f"Missing: {line}."
    if event.snapshot is not None:
        where = f"artifacts/{event.snapshot} in the run's folder"
        yield f"Snapshot for pytorch.org/memory_viz: {where}."


def _parts(levels: dict[str, int]) -> str:
    """Categories with their MiB."""
    named = ((name, levels[name]) for name in CATEGORIES if levels.get(name))
    return ", ".join(f"{name} {format_cell(_mib(size))}" for name, size in named)


def _new_baseline(event: MemoryTimeline) -> Iterable[str]:
    """What the recorded steps made that stays: the optimizer's state, without warm-up."""
    made = {
        name: size - event.before.get(name, 0)
        for name, size in event.after.items()
        if size > event.before.get(name, 0)
    }
    if made.get("optimizer state", 0) < MIB // 200:
        return
    start, end = (sum(levels.values()) for levels in (event.before, event.after))
    yield (
        f"The recorded steps made what stays between steps, in MiB: {_parts(made)}. The level "
        f"between steps rose from {format_cell(_mib(start))} to {format_cell(_mib(end))} MiB, the "
        "new baseline."
    )


def largest_allocations(state: CaseState, event: MemoryTimeline) -> Table:
    """M32: the largest allocations that were live at the peak."""
    columns = (
        Column("Size requested", "MiB"),
        Column("Blocks"),
        Column("Total requested", "MiB"),
        Column("Category", numeric=False),
        Column("Made in", numeric=False),
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
    notes = (
        "Live at the peak of requested bytes; blocks that are alike are one row. Made in: the "
        "phase, or before the recorded steps. What: a tensor's name, or the line of Python that "
        "asked for it.",
    )
    return Table(key, title, columns, rows, notes, number="M32")


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
    total = format_cell(_mib(sum(each.bytes for each in event.saved)))
    notes = (
        f"{total} MiB in all, requested bytes; a storage counts once, for the module that saves it "
        "first, and parameters are left out. Modules that differ in their number alone share a "
        "row; each: of one of them.",
    )
    key = f"saved-{state.index}"
    title = f"Saved for backward: {state.case.label}"
    return Table(key, title, columns, rows, notes, folded=True)


def reconciliation(view: RunView) -> Table | None:
    """Context, allocated, cached and others against what the driver says is used."""
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, None] = {
        "After the recorded steps; the parts add up to what the driver says is used. Allocated: "
        "blocks that torch's allocator gave out; cached: what it keeps besides. The context holds "
        "loaded kernels and libraries too; the rest is in no process, or is not told apart.": None
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
        Column("Used (driver)", "MiB"),
    )
    return Table("reconciliation", "Where the card's memory is", columns, tuple(rows), tuple(notes))


def _mib(size: int | None) -> Cell:
    if size is not None and 0 < abs(size) < MIB // 200:
        return "under 0.01"
    return Figure(None if size is None else size / MIB, 0.1)
