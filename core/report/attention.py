"""M33 and M34: the attention grid, a table for each width, and how time and memory grow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmprof.core.figures.comparison import compare
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import grouped_alike, times
from llmprof.core.report.sentences import is_launch_bound, mib, ref, why_not
from llmprof.core.report.table import Cell, Column, Figure, Table, format_number
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.power_fit import Point, Power, fit_power
from llmprof.core.stats.ratio import ratio
from llmprof.core.system.units import MIB

WAYS = ("compiled", "raw", "SDPA", "SDPA compiled")
ACROSS = ("context_length", "attention", "compile")


@dataclass(frozen=True)
class AttentionGrid:
    """The cells of one width: by sequence length and way of computing."""

    cells: dict[int, dict[str, CaseState]]

    @property
    def states(self) -> list[CaseState]:
        """All cells."""
        return [state for row in self.cells.values() for state in row.values()]

    @property
    def ways(self) -> list[str]:
        """The ways that were asked for, in the order of WAYS."""
        asked = {way for row in self.cells.values() for way in row}
        return [way for way in WAYS if way in asked]

    def column(self, way: str) -> list[CaseState]:
        """One way's cells by length."""
        return [row[way] for _, row in sorted(self.cells.items()) if way in row]


def way_of(state: CaseState) -> str:
    """How a cell computes attention, in one word."""
    fused = "SDPA" if state.case.attention == "sdpa" else ""
    compiled = "compiled" if state.case.compile else ""
    return " ".join(word for word in (fused, compiled) if word) or "raw"


def grids(view: RunView) -> list[AttentionGrid]:
    """One grid for each width (and batch, precision, mode) of the attention probe."""
    states = [state for state in view.cases if state.case.probe == "attention"]
    found = []
    for group in grouped_alike(states, *(BY_FIELD[name] for name in ACROSS)):
        cells: dict[int, dict[str, CaseState]] = {}
        for state in group:
            cells.setdefault(state.case.context_length, {})[way_of(state)] = state
        found.append(AttentionGrid(cells))
    return found


def attention(view: RunView) -> list[Table]:
    """M33: one table a width."""
    all_grids = grids(view)
    states = [state for grid in all_grids for state in grid.states]
    axes = axes_of(states, *ACROSS)
    return [_table(grid, axes) for grid in all_grids]


def _table(grid: AttentionGrid, axes: list[tuple[str, Column]]) -> Table:
    first = grid.states[0].case
    phases: tuple[Phase, ...] = first.phases
    columns = [Column("seq_len", "tokens")]
    columns += [Column(f"{phase} ({way})", "ms") for phase in phases for way in grid.ways]
    if "backward" in phases:
        columns += [Column(f"memory before backward ({way})", "MiB") for way in grid.ways]
    rows = []
    for length, row in sorted(grid.cells.items()):
        cells: list[Cell] = [length]
        cells += [_time(row.get(way), phase) for phase in phases for way in grid.ways]
        if "backward" in phases:
            cells += [_memory(row.get(way)) for way in grid.ways]
        rows.append(tuple(cells))
    values = zip(axes, axis_cells(first, axes), strict=True)
    extra = [f"{column.header} {cell}" for (_, column), cell in values]
    title = ", ".join([f"Attention, {first.model.name}", f"batch {first.batch_size}", *extra])
    return Table("attention", title, tuple(columns), tuple(rows), tuple(_notes(grid)), number="M33")


def exponents(view: RunView) -> Table | None:
    """M34: the power of the length with which time and memory grow, at the largest lengths."""
    rows: list[tuple[Cell, ...]] = []
    for grid in grids(view):
        for way in grid.ways:
            column = grid.column(way)
            fits = [_fit_time(column, "forward"), _fit_time(column, "backward"), _fit_saved(column)]
            if not any(fits):
                continue
            width = column[0].case.reference.d_model
            rows.append((width, way, *(cell for fit in fits for cell in _power_cells(fit))))
    columns = [Column("d"), Column("Way", numeric=False)]
    for name in ("forward", "backward", "memory kept"):
        columns += [
            Column(f"{name} exponent", numeric=False),
            Column(f"{name} fitted over", "tokens", False),
        ]
    notes = (
        "y = c·L^k by least squares in log-log over the largest lengths that ran, three at most. "
        "The arithmetic is 4·batch·L²·d forward and twice that backward, so 2 is expected of time "
        "where the device is busy and less where launches or fixed costs count. Memory kept is "
        "what lies between the step's start and its backward: 2 where the scores are kept, 1 "
        "where they are computed again.",
    )
    return (
        Table("exponents", "Growth with length", tuple(columns), tuple(rows), notes, number="M34")
        if rows
        else None
    )


def _notes(grid: AttentionGrid) -> list[str]:
    lines = ["Means of single steps; every cell ran in a fresh process."]
    lines += [line for way in grid.ways if (line := _growth(way, grid.column(way))) is not None]
    lines += _fastest(grid)
    cold = [s.observed.compile_ms for s in grid.states if s.observed and s.observed.compile_ms]
    if cold:
        times_s = sorted(
            {format_number(each / 1e3, 0.1) for each in (min(cold), max(cold))}, key=float
        )
        lines.append(
            f"Compiling, cold and with the first step, took {' to '.join(times_s)} s a cell and is "
            f"in no mean."
        )
    small = [state for state in grid.states if is_launch_bound(state)]
    if small:
        lengths = sorted({state.case.context_length for state in small})
        lines.append(
            f"Launch-bound, so that time says more of the host than of the card, up to "
            f"{lengths[-1]:,} tokens {ref(*small)}."
        )
    return [*lines, *why_not(grid.states)]


def _growth(way: str, column: list[CaseState]) -> str | None:
    """What the last doubling (or step) in length did to time and memory of one way."""
    ran = [state for state in column if state.total is not None]
    if len(ran) < 2:
        return None
    before, after = ran[-2], ran[-1]
    lengths = f"{before.case.context_length:,} to {after.case.context_length:,} tokens"
    longer = after.case.context_length / before.case.context_length
    grown = ratio(after.total, before.total)
    if grown is None:
        return None
    text = f"{way}: from {lengths} ({longer:g} ×) a step takes {times(grown)} as long"
    kept = bytes_saved(before), bytes_saved(after)
    if kept[0] and kept[1] and kept[0] > 0 and kept[1] > 0:
        text += f" and keeps {mib(kept[1])} for the backward, {kept[1] / kept[0]:.1f} ×"
    return f"{text} {ref(before, after)}."


def _fastest(grid: AttentionGrid) -> list[str]:
    """Which way is the fastest at the greatest length that two of them reach."""
    for length, row in sorted(grid.cells.items(), reverse=True):
        ran = [(state.total.mean, way, state) for way, state in row.items() if state.total]
        if len(ran) < 2:
            continue
        ran.sort(key=lambda item: item[0])
        (_, name, state), (_, other, slow) = ran[0], ran[-1]
        found = compare(slow, state)
        if found is None:
            continue
        text = f"At {length:,} tokens {name} is {times(found.total.speedup)} as fast as {other}"
        if found.not_judged:
            text += f" ({found.not_judged})"
        elif found.total.decision != "faster":
            text = f"At {length:,} tokens no way is told to be faster than {other}"
        return [f"{text} {ref(state, slow)}."]
    return []


def before_backward(state: CaseState) -> int | None:
    """Bytes in use when the forward has ended."""
    edges = () if state.memory is None else state.memory.edges
    return next((edge.allocated_bytes for edge in edges if edge.phase == "forward"), None)


def bytes_saved(state: CaseState) -> int | None:
    """Bytes that the forward left in use: output and what the backward needs.

    None where only the process's resident set is known, which does not follow tensors.
    """
    if state.memory is None or state.memory.source != "cuda allocator":
        return None
    edges = state.memory.edges
    start = next((edge.allocated_bytes for edge in edges if edge.phase == "start"), None)
    end = before_backward(state)
    return None if start is None or end is None else end - start


def _fit_time(column: list[CaseState], phase: Phase) -> Power | None:
    points = [
        Point(float(state.case.context_length), found.mean, found.ci95)
        for state in column
        if (found := state.summaries.get(phase)) is not None and not is_launch_bound(state)
    ]
    return fit_power(points)


def _fit_saved(column: list[CaseState]) -> Power | None:
    return fit_power(
        [
            Point(float(state.case.context_length), float(kept))
            for state in column
            if (kept := bytes_saved(state)) is not None
        ]
    )


def _power_cells(fit: Power | None) -> tuple[Cell, Cell]:
    if fit is None:
        return None, "n/a"
    spread = "" if fit.half is None else f" ± {math.ceil(100 * fit.half) / 100:.2f}"
    return f"{fit.exponent:.2f}{spread}", f"{fit.low:,.0f} to {fit.high:,.0f}"


def _time(state: CaseState | None, phase: Phase) -> Cell:
    if state is None:
        return None
    found = state.summaries.get(phase)
    return status_word(state) if found is None else Figure(found.mean, found.ci95)


def _memory(state: CaseState | None) -> Cell:
    if state is None:
        return None
    count = before_backward(state)
    return status_word(state) if count is None else Figure(count / MIB, 1.0)
