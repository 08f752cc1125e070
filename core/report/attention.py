"""M33 and M34: the attention grid, a table for each width, and how time and memory grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmprof.core.events import AttentionErrors
from llmprof.core.figures.memory_peaks import PeakKind, kind_of
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import grouped_alike, times
from llmprof.core.report.growth_fits import APART, between, one_power, stands
from llmprof.core.report.sentences import (
    forward_peak,
    is_launch_bound,
    listing,
    mib,
    peak_bytes,
    ref,
    why_not,
)
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Phase
from llmprof.core.spec.own_function import is_function
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.power_fit import FEWEST_POINTS, LEAST_SPAN, Point, Power
from llmprof.core.stats.ratio import ratio
from llmprof.core.system.numbers import as_given, significant
from llmprof.core.system.units import MIB

WAYS = ("compiled", "raw", "SDPA", "SDPA compiled")
ACROSS = ("context_length", "attention", "compile")
MEMORY_STEP = "Memory is of one extra step, which is not timed, in "
EAGER_OR_NOT = ("raw", "compiled")
WHAT_IS_COUNTED: dict[PeakKind, str] = {
    "allocated": "allocated bytes, the blocks that CUDA's allocator gave out",
    "resident": "the process's resident set, which holds Python and torch too",
}
FORWARD_PEAK, BEFORE_BACKWARD, OVERALL = (
    "peak of forward", "level before backward", "overall peak",
)  # fmt: skip


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
        return [*(way for way in WAYS if way in asked), *sorted(asked - set(WAYS))]

    def column(self, way: str) -> list[CaseState]:
        """One way's cells by length."""
        return [row[way] for _, row in sorted(self.cells.items()) if way in row]


def way_of(state: CaseState) -> str:
    """How a cell computes attention, in one word."""
    kind = BY_FIELD["attention"].brief(state.case.attention)
    fused = {"naive": "", "sdpa": "SDPA"}.get(kind, kind)
    compiled = "compiled" if state.case.compile else ""
    return " ".join(word for word in (fused, compiled) if word) or "raw"


def grids(view: RunView) -> list[AttentionGrid]:
    """One grid for each width (and batch, precision, mode) of the attention probe."""
    states = [state for state in view.cases if state.case.probe == "attention"]
    states = [state for state in states if not state.case.cold_cache]
    found = []
    for group in grouped_alike(states, *(BY_FIELD[name] for name in ACROSS)):
        cells: dict[int, dict[str, CaseState]] = {}
        for state in group:
            cells.setdefault(state.case.context_length, {})[way_of(state)] = state
        found.append(AttentionGrid(cells))
    return found


def attention(view: RunView) -> list[Table]:
    """M33: one table a width."""
    subject = subject_of(view)
    all_grids = grids(subject)
    states = [state for grid in all_grids for state in grid.states]
    axes = axes_of(states, *ACROSS)
    return [_table(subject, grid, axes) for grid in all_grids]


def _table(subject: Subject, grid: AttentionGrid, axes: list[tuple[str, Column]]) -> Table:
    first = grid.states[0].case
    phases: tuple[Phase, ...] = first.phases
    columns = [Column("seq_len", "tokens")]
    columns += [Column(f"{phase} ({way})", "ms") for phase in phases for way in grid.ways]
    read = MEMORY_COLUMNS if "backward" in phases else MEMORY_COLUMNS[:1]
    columns += [Column(f"{name} ({way})", "MiB") for name, _ in read for way in grid.ways]
    rows = []
    for length, row in sorted(grid.cells.items()):
        cells: list[Cell] = [length]
        cells += [_time(row.get(way), phase) for phase in phases for way in grid.ways]
        cells += [_memory(row.get(way), level) for _, level in read for way in grid.ways]
        rows.append(tuple(cells))
    values = zip(axes, axis_cells(grid.states[0], axes), strict=True)
    extra = [f"{column.header} {cell}" for (_, column), cell in values]
    if not any(field == "precision" for field, _ in axes):
        extra = [first.precision, *extra]
    named = [f"Attention, {first.model.name}", f"batch {first.batch_size}", *extra, "causal"]
    title = ", ".join(named)
    return Table(
        "attention", title, tuple(columns), tuple(rows), tuple(_notes(subject, grid)), number="M33"
    )


def exponents(view: RunView) -> Table | None:
    """M34: the power of the length with which time and memory grow, at the largest lengths."""
    rows: list[tuple[Cell, ...]] = []
    subject = subject_of(view)
    all_grids = grids(subject)
    axes = axes_of([state for grid in all_grids for state in grid.states], *ACROSS)
    for grid in all_grids:
        for way in grid.ways:
            column = grid.column(way)
            fits = [
                _fit_time(subject, column, "forward"),
                _fit_time(subject, column, "backward"),
                _fit_kept(subject, column),
            ]
            if not any(fits):
                continue
            case = column[0].case
            head = (case.reference.d_model, *axis_cells(column[0], axes), way)
            rows.append((*head, *(cell for fit in fits for cell in _power_cells(fit))))
    columns = [Column("d"), *(column for _, column in axes), Column("Way", numeric=False)]
    for name in ("forward", "backward", "memory kept"):
        columns += [
            Column(f"{name} exponent"),
            Column(f"{name} between neighbours", numeric=False),
            Column(f"{name} fitted over", "tokens", False),
        ]
    notes = (
        "The exponent k of y = c·L^k, by least squares in log-log over the three largest lengths; "
        f"n/a where fewer than {FEWEST_POINTS} ran, where they span less than "
        f"{as_given(LEAST_SPAN)} ×, and where exponents between neighbours are more than "
        f"{as_given(APART)} apart. Cells to which a check says no are left out, of times those "
        "that are launch-bound too; checks of clocks do not touch counted bytes. Between "
        "neighbours: the least and the greatest exponent from one of these lengths to the next.",
        "The arithmetic is 4·batch·L²·d forward and twice that backward, so 2 is expected of time "
        "where the device is busy and less where fixed costs count. Memory kept is the level "
        "before backward less that at the step's start: 2 where the scores are kept, 1 where they "
        "are computed again.",
    )
    return (
        Table("exponents", "Growth with length", tuple(columns), tuple(rows), notes, number="M34")
        if rows
        else None
    )


def _notes(subject: Subject, grid: AttentionGrid) -> list[str]:
    processes = max(len(processes_of(state)) for state in grid.states)
    where = "a fresh process" if processes == 1 else f"{processes} fresh processes"
    lines = [f"Times are means of the measured steps; every cell ran in {where}."]
    lines += _kernels_note(grid)
    lines += _memory_notes(grid)
    lines += _own_notes(grid)
    grown = (_growth(subject, way, grid.column(way)) for way in grid.ways)
    lines += [line for line in grown if line is not None]
    lines += _fastest(subject, grid)
    cold = [s.observed.compile_ms for s in grid.states if s.observed and s.observed.compile_ms]
    if cold:
        ends = dict.fromkeys(significant(each / 1e3) for each in (min(cold), max(cold)))
        lines.append(
            f"Compiling took {' to '.join(ends)} s a cell, from an empty cache and with the first "
            "step; the means leave it out."
        )
    small = [state for state in grid.states if is_launch_bound(state)]
    if small:
        longest = max(state.case.context_length for state in small)
        up_to = [state for state in grid.states if state.case.context_length <= longest]
        some = "" if len(small) == len(up_to) else f"of {len(small)} of {len(up_to)} cells "
        lines.append(
            f"The host sets the pace {some}up to {longest:,} tokens, where time says more of it "
            f"than of the card {ref(*small)}."
        )
    return [*lines, *why_not(grid.states)]


def _kernels_note(grid: AttentionGrid) -> list[str]:
    """Which kernels SDPA ran, where that was seen."""
    seen = dict.fromkeys(
        state.observed.attention_backend
        for state in grid.states
        if state.case.attention == "sdpa" and state.observed and state.observed.attention_backend
    )
    return [f"SDPA ran as {listing(map(str, seen))}."] if seen else []


def _own_notes(grid: AttentionGrid) -> list[str]:
    """How far functions of the user's own are from the reference, at their worst."""
    lines = []
    for way in grid.ways:
        found = [
            (worst, state, errors.reference)
            for state in grid.column(way)
            if is_function(state.case.attention)
            and state.observed is not None
            and (errors := state.observed.errors) is not None
            and (worst := _worst(errors)) is not None
        ]
        if found:
            worst, state, reference = max(found, key=lambda each: each[0])
            lines.append(
                f"{way}: output and gradients are within {significant(worst, 2)} of naive "
                f"attention in {reference} (‖difference‖ / ‖reference‖, the largest of all) "
                f"{ref(state)}."
            )
    return lines


def _worst(errors: AttentionErrors) -> float | None:
    known = (errors.output, errors.query, errors.key, errors.value)
    return max((each for each in known if each is not None), default=None)


def _memory_notes(grid: AttentionGrid) -> list[str]:
    """What the memory columns count, and why two of them are equal."""
    read = [state for state in grid.states if state.memory is not None]
    if not read:
        return []
    kind = kind_of(read)
    if "backward" not in read[0].case.phases:
        return [f"{MEMORY_STEP}{WHAT_IS_COUNTED[kind]}: the highest level within the forward."]
    lines = [
        f"{MEMORY_STEP}{WHAT_IS_COUNTED[kind]}. {FORWARD_PEAK.capitalize()}: the highest level "
        f"within the forward. {BEFORE_BACKWARD.capitalize()}: the level when the forward has "
        "ended, with its inputs, its output and all that it keeps for the backward. "
        f"{OVERALL.capitalize()}: the highest level within the whole step. Each holds what is "
        "there at the step's start as well: inputs, and the workspace of a library's products, "
        "which does not grow."
    ]
    return [*lines, *_same_level(grid), *_same_peak(grid)] if kind == "allocated" else lines


def _same_level(grid: AttentionGrid) -> list[str]:
    """Raw and compiled keep the same for the backward, but hold different amounts meanwhile."""
    pairs = [
        (row["raw"], row["compiled"]) for row in grid.cells.values() if {*EAGER_OR_NOT} <= {*row}
    ]
    known = [pair for pair in pairs if all(before_backward(state) for state in pair)]
    if not known or any(before_backward(a) != before_backward(b) for a, b in known):
        return []
    raw, compiled = max(known, key=lambda pair: pair[0].case.context_length)
    peaks = [(forward_peak(state), peak_bytes(state)) for state in (raw, compiled)]
    (forward, overall), (forward_compiled, overall_compiled) = peaks
    text = (
        "Raw and compiled have the same level before backward: both keep the output of the softmax "
        "for it. They differ in what they hold meanwhile"
    )
    if not (forward and overall and forward_compiled and overall_compiled):
        return [f"{text}."]
    return [
        f"{text}: at {raw.case.context_length:,} tokens raw needs {mib(forward)} in the forward "
        f"and {mib(overall)} overall, compiled {mib(forward_compiled)} and "
        f"{mib(overall_compiled)} {ref(raw, compiled)}."
    ]


def _same_peak(grid: AttentionGrid) -> list[str]:
    """Where nothing beyond what is kept is held in the forward."""
    equal = [
        way
        for way in grid.ways
        if (known := [s for s in grid.column(way) if forward_peak(s) and before_backward(s)])
        and all(forward_peak(state) == before_backward(state) for state in known)
    ]
    if not equal:
        return []
    return [
        f"{listing(equal)}: the peak of forward is the level before backward, since what is "
        "allocated in the forward is kept to its end."
    ]


def _growth(subject: Subject, way: str, column: list[CaseState]) -> str | None:
    """What the last doubling (or step) in length did to time and memory of one way.

    Nothing of times to one of which a check says no.
    """
    ran = [state for state in column if state.total is not None and not is_launch_bound(state)]
    if len(ran) < 2:
        return None
    before, after = ran[-2], ran[-1]
    lengths = f"{before.case.context_length:,} to {after.case.context_length:,} tokens"
    longer = after.case.context_length / before.case.context_length
    grown = None if subject.failed_checks(before, after) else ratio(after.total, before.total)
    parts = [] if grown is None else [f"takes {times(grown)} as long"]
    parts += _kept_words(before, after)
    if not parts:
        return None
    said = f"a step {' and '.join(parts)}"
    return f"{way}: from {lengths} ({significant(longer)} ×) {said} {ref(before, after)}."


def _kept_words(before: CaseState, after: CaseState) -> list[str]:
    less, more = bytes_kept(before), bytes_kept(after)
    if not less or not more or less < 0 or more < 0:
        return []
    return [f"keeps {mib(more)} for the backward, {significant(more / less, 2)} × as much"]


def _fastest(subject: Subject, grid: AttentionGrid) -> list[str]:
    """Which way is the fastest at the greatest length at which two of them stand."""
    for length, row in sorted(grid.cells.items(), reverse=True):
        ran = [
            (state.total.mean, way, state)
            for way, state in row.items()
            if state.total and not subject.failed_checks(state)
        ]
        if len(ran) < 2:
            continue
        ran.sort(key=lambda item: item[0])
        (_, name, state), (_, other, slow) = ran[0], ran[-1]
        found = subject.compare(slow, state)
        if found is None:
            continue
        text = f"At {length:,} tokens {name} is {times(found.total.speedup)} as fast as {other}"
        if found.not_judged:
            text += f" ({found.not_judged})"
        elif found.total.decision != "faster":
            text = f"At {length:,} tokens {name} is not distinguished from {other}"
        return [f"{text} {ref(state, slow)}."]
    return []


def before_backward(state: CaseState) -> int | None:
    """Bytes in use when the forward has ended."""
    edges = () if state.memory is None else state.memory.edges
    return next((edge.allocated_bytes for edge in edges if edge.phase == "forward"), None)


def bytes_kept(state: CaseState) -> int | None:
    """Bytes that the forward left in use: output and what the backward needs.

    None where only the process's resident set is known, which does not follow tensors.
    """
    if state.memory is None or not state.memory.on_card:
        return None
    edges = state.memory.edges
    start = next((edge.allocated_bytes for edge in edges if edge.phase == "start"), None)
    end = before_backward(state)
    return None if start is None or end is None else end - start


MEMORY_COLUMNS: tuple[tuple[str, Callable[[CaseState], int | None]], ...] = (
    (FORWARD_PEAK, forward_peak),
    (BEFORE_BACKWARD, before_backward),
    (OVERALL, peak_bytes),
)


def _fit_time(subject: Subject, column: list[CaseState], phase: Phase) -> Power | None:
    return one_power(
        Point(float(state.case.context_length), found.mean)
        for state in column
        if (found := state.summaries.get(phase)) is not None and stands(subject, state, timed=True)
    )


def _fit_kept(subject: Subject, column: list[CaseState]) -> Power | None:
    return one_power(
        Point(float(state.case.context_length), float(kept))
        for state in column
        if (kept := bytes_kept(state)) is not None and stands(subject, state, timed=False)
    )


def _power_cells(fit: Power | None) -> tuple[Cell, Cell, Cell]:
    if fit is None:
        return None, "n/a", "n/a"
    return Figure(fit.exponent, 0.1), between(fit), f"{fit.low:,.0f} to {fit.high:,.0f}"


def _time(state: CaseState | None, phase: Phase) -> Cell:
    if state is None:
        return None
    found = state.summaries.get(phase)
    return status_word(state) if found is None else Figure(found.mean, found.ci95)


def _memory(state: CaseState | None, level: Callable[[CaseState], int | None]) -> Cell:
    if state is None:
        return None
    count = level(state)
    return status_word(state) if count is None else Figure(count / MIB, 1.0)
