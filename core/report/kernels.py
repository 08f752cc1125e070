"""Where a profiled case's time went: top kernels, classes, modules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import CLASSES, UNATTRIBUTED, KernelRow, ShareRow
from llmprof.core.figures.profile_wholes import Wholes, mean_wall, twin
from llmprof.core.report.kernel_shares import (
    calls_cell,
    share_cell,
    share_cells,
    share_columns,
    shares_note,
)
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import format_number, significant
from llmprof.core.system.text import counted

TOP = 15
NUMBERS = {"forward": "M23", "backward": "M25"}
SOURCES_NOTE = (
    "Source lines were found in a session of their own, which that made slower: all times are of"
    " the session without. A line is the one that launched most of the row's op in its module."
)
CPU_NOTE = "No card: these are CPU ops, each by its self time; nothing here is a GPU figure."


def kernel_tables(view: RunView) -> list[Table]:
    """All tables of every profiled case, in the order in which they are read."""
    tables: list[Table] = []
    for state in view.cases:
        if state.kernels is not None:
            tables += [class_table(state, state.kernels, mean_wall(twin(view, state)))]
            tables += [
                top_kernels(state, state.kernels, phase, explained=not at)
                for at, phase in enumerate(phases_seen(state.kernels))
            ]
            tables += [module_table(state, state.kernels)]
    return tables


def phases_seen(table: ev.KernelTable) -> list[str]:
    """Phases in which something ran, unattributed last if there was any."""
    return list(dict.fromkeys(row.phase for row in table.rows))


def top_kernels(
    state: CaseState,
    table: ev.KernelTable,
    phase: str,
    limit: int | None = TOP,
    *,
    explained: bool = True,
) -> Table:
    """M23, M25: the kernels of one phase, the longest first, the rest in one row.

    Shares are of that phase. explained: what the columns mean stands below; once is enough for the
    phases of a case.
    """
    rows = [row for row in table.rows if row.phase == phase]
    shown, rest = (rows, []) if limit is None else (rows[:limit], rows[limit:])
    sources = any(row.source for row in shown)
    layout = Layout(table, phase, Wholes.of(state, table, phase), sources)
    cells = [layout.row(row) for row in shown]
    if rest:
        cells.append(layout.rest(rest))
    nouns = "kernels" if table.source == "cuda" else "CPU ops"
    return Table(
        f"kernels-{phase}-{state.index}",
        f"Top {nouns}, {phase}, one profiled step (mean of {table.steps}): {state.case.label}",
        layout.columns(),
        tuple(cells),
        layout.notes(explained=explained),
        folded=phase not in ("forward", "backward", "optimizer"),
        number=NUMBERS.get(phase, ""),
    )


def class_table(state: CaseState, table: ev.KernelTable, plain_ms: float | None = None) -> Table:
    """Time by class: one row a class, one column a phase, milliseconds of one step.

    plain_ms is the wall time of a step without the profiler.
    """
    names, wholes = phases_seen(table), Wholes.of(state, table)
    rows: list[tuple[Cell, ...]] = []
    for label in CLASSES:
        mine = [row for row in table.classes if row.label == label]
        if mine:
            total = sum(row.total_ms for row in mine)
            shares = share_cells(total, wholes, table.source)
            rows.append((label, *_phase_cells(mine, names, table.steps), *shares))
    rows.sort(key=lambda row: -_value(row[len(names) + 2]))
    columns = (
        Column("Class", numeric=False),
        Column("Calls", "per step"),
        *(Column(phase, "ms") for phase in names),
        Column("Total", "ms"),
        *share_columns(table.source),
    )
    walls = _walls_note(table, wholes, plain_ms)
    trace = (f"Chrome trace for Perfetto: artifacts/{table.trace} of the run.",)
    notes = (
        *_coverage_notes(table),
        shares_note(table, wholes),
        walls,
        *table.notes,
        *(f"Missing: {line}." for line in table.missing),
        *(trace if table.trace else ()),
    )
    title = f"Time by class, one profiled step (mean of {table.steps}): {state.case.label}"
    return Table(f"classes-{state.index}", title, columns, tuple(rows), notes)


def module_table(state: CaseState, table: ev.KernelTable) -> Table:
    """Time by module, layers together: forward and backward of each, and what has none."""
    names = phases_seen(table)
    rows: list[tuple[Cell, ...]] = []
    whole = Wholes.of(state, table).work
    for label in dict.fromkeys(row.label for row in table.modules):
        mine = [row for row in table.modules if row.label == label]
        share = share_cell(sum(row.total_ms for row in mine), whole)
        rows.append((label, *_phase_cells(mine, names, table.steps), share))
    rows.sort(key=lambda row: -_value(row[-1]))
    columns = (
        Column("Module", numeric=False),
        Column("Calls", "per step"),
        *(Column(phase, "ms") for phase in names),
        Column("Total", "ms"),
        share_columns(table.source)[0],
    )
    title = f"Time by module, one profiled step (mean of {table.steps}): {state.case.label}"
    notes = ("Layers are added up: blocks.* is every block. In brackets: what has no module.",)
    return Table(f"modules-{state.index}", title, columns, tuple(rows), notes, folded=True)


@dataclass(frozen=True)
class Layout:
    """Columns and cells of a phase's top kernels, or of its top ops where there was no card."""

    table: ev.KernelTable
    phase: str
    wholes: Wholes
    sources: bool

    @property
    def on_card(self) -> bool:
        """Whether kernels are shown, which an op launched: a CPU op is its own."""
        return self.table.source == "cuda"

    @property
    def origin(self) -> str:
        """Heading of the share that the named origin has of a row."""
        return "Pair's share" if self.on_card else "Module's share"

    def columns(self) -> tuple[Column, ...]:
        """Headings."""
        return (
            Column("Kernel" if self.on_card else "CPU op", numeric=False),
            Column("Class", numeric=False),
            Column("Calls", "per step"),
            Column("Avg", "µs"),
            Column("Std over calls", "µs"),
            Column("Total", "ms per step"),
            *share_columns(self.table.source, self.phase),
            *((Column("Launched by", numeric=False),) if self.on_card else ()),
            Column("Module", numeric=False),
            Column(self.origin, "%"),
            *((Column("Source", numeric=False),) if self.sources else ()),
        )

    def row(self, row: KernelRow) -> tuple[Cell, ...]:
        """Cells of one kernel."""
        steps = self.table.steps
        return (
            row.name,
            row.group,
            calls_cell(row.calls, steps),
            1e3 * row.avg_ms,
            None if row.std_ms is None else 1e3 * row.std_ms,
            row.total_ms / steps,
            *share_cells(row.total_ms, self.wholes, self.table.source),
            *((row.op or UNATTRIBUTED,) if self.on_card else ()),
            row.module or UNATTRIBUTED,
            Figure(row.origin_share, 1.0),
            *((row.source or "",) if self.sources else ()),
        )

    def rest(self, rest: list[KernelRow]) -> tuple[Cell, ...]:
        """Cells of all others in one row."""
        calls, total = sum(row.calls for row in rest), sum(row.total_ms for row in rest)
        return (
            f"({sum(row.merged for row in rest)} more)",
            "",
            calls_cell(calls, self.table.steps),
            1e3 * total / calls,
            None,
            total / self.table.steps,
            *share_cells(total, self.wholes, self.table.source),
            *(("",) if self.on_card else ()),
            "",
            "",
            *(("",) if self.sources else ()),
        )

    def notes(self, *, explained: bool) -> tuple[str, ...]:
        """What the columns mean."""
        origin = "Launched by and Module name the one pair" if self.on_card else "Module is the one"
        note = (
            f"Std over calls: sample standard deviation (ddof 1) over the calls of"
            f" {self.table.steps} profiled steps; calls of one name may differ in shape, which"
            f" widens it. Shares are of the phase in the title. {origin} with most of the row's"
            f" time, and"
            f" {self.origin} how much of it that is: the rest comes from elsewhere."
        )
        return (
            *(() if self.on_card else (CPU_NOTE,)),
            *((note,) if explained else ()),
            *((SOURCES_NOTE,) if self.sources else ()),
        )


def _phase_cells(mine: Iterable[ShareRow], names: list[str], steps: int) -> tuple[Cell, ...]:
    """Calls, the time in each phase (0 where none of it ran), the whole time, all of one step."""
    by_phase = {row.phase: row for row in mine}
    calls = sum(row.calls for row in by_phase.values())
    total = sum(row.total_ms for row in by_phase.values())
    times = [Figure(by_phase[p].total_ms / steps if p in by_phase else 0.0) for p in names]
    return (calls_cell(calls, steps), *times, Figure(total / steps))


def _walls_note(table: ev.KernelTable, wholes: Wholes, plain_ms: float | None) -> str:
    profiled = None if wholes.wall is None else wholes.wall / table.steps
    words = [
        "n/a" if wall is None else f"{format_number(wall)} ms" for wall in (profiled, plain_ms)
    ]
    return f"Wall time of a step: {words[0]} under the profiler, {words[1]} without."


def _coverage_notes(table: ev.KernelTable) -> list[str]:
    c = table.coverage
    shares = (("phase", c.to_phase), ("op", c.to_op), ("module", c.to_module))
    known = ", ".join(
        f"{name} {significant(share, 4)} %" for name, share in shares if share is not None
    )
    notes = [
        f"How much of the time of all activities, {_a_step(c.activities, table)} a step, is tied "
        f"to a phase, an op and a module: {known}."
    ]
    if c.backward_to_module is not None:
        notes.append(
            f"Of the backward's time {significant(c.backward_to_module, 4)} % is tied to a module."
        )
    if table.source == "cpu":
        return [CPU_NOTE, *notes]
    return [
        *notes,
        f"{_a_step(c.launches, table)} kernel launches a step; "
        f"{c.launches_without_kernel:,} of the {c.launches:,} in "
        f"{counted(table.steps, 'profiled step')} had no kernel.",
    ]


def _a_step(count: int, table: ev.KernelTable) -> str:
    return format_cell(calls_cell(count, table.steps))


def _value(cell: Cell) -> float:
    return cell.value or 0.0 if isinstance(cell, Figure) else 0.0
