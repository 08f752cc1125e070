"""Rows of the kernel table, and the phases among which they are chosen."""

from __future__ import annotations

from collections import Counter

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import KernelRow
from llmprof.core.figures.profile_wholes import Wholes
from llmprof.core.kernels.narrow_names import narrow
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clean
from llmprof.tui.kit.format import milliseconds_text, number_text
from llmprof.tui.kit.roles import PHASE_ROLES
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow

ALL = "all"


class NameCell(TableCell):
    """A kernel's name, of which what tells it from others stays in sight."""

    def shown(self, width: int) -> str:
        """The name, narrow where it must be."""
        return narrow(self.text, width)


def kernel_columns(source: str, phase: str) -> tuple[TableColumn, ...]:
    """Columns for kernels, or for CPU ops where there was no card.

    Which phase a row is of is said wherever rows of several stand together.
    """
    on_card = source == "cuda"
    return (
        TableColumn("Kernel" if on_card else "CPU op", 38),
        TableColumn("Class", 11, priority=2),
        TableColumn("Phase", 9, priority=0 if phase == ALL else 7),
        TableColumn("Calls", 6, "right"),
        TableColumn("Avg µs", 8, "right", priority=1 if phase == ALL else 0),
        TableColumn("Std µs", 8, "right", priority=3),
        TableColumn("Total ms", 9, "right"),
        TableColumn("% busy" if on_card else "% ops", 6, "right"),
        TableColumn("% wall", 6, "right", priority=1),
        TableColumn("Launched by", 22, priority=4),
        TableColumn("Module", 26, priority=6),
    )


def profiled_cases(view: RunView) -> list[CaseState]:
    """The cases of a run that have a kernel profile."""
    return [state for state in view.cases if state.kernels is not None]


def phase_names(table: ev.KernelTable) -> list[str]:
    """All, then every phase in which something ran."""
    return [ALL, *dict.fromkeys(row.phase for row in table.rows)]


def total_ms(table: ev.KernelTable, phase: str) -> float:
    """Time of a phase in one step."""
    return sum(row.total_ms for row in table.rows if phase in (ALL, row.phase)) / table.steps


def kernel_table_rows(state: CaseState, phase: str) -> list[TableRow]:
    """The rows of a phase, the longest first; keys are positions in the table's rows."""
    table = state.kernels
    if table is None:
        return []
    wholes = Wholes.of(state, table)
    whole = wholes.busy if table.source == "cuda" else wholes.work
    rows = [(at, row) for at, row in enumerate(table.rows) if phase in (ALL, row.phase)]
    if phase == ALL:
        rows.sort(key=lambda pair: -pair[1].total_ms)
    times = Counter((row.phase, row.name) for row in table.rows)
    return [
        TableRow(
            str(at),
            (
                _name(row, alike=times[row.phase, row.name] > 1),
                *_kernel_cells(row, table.steps, whole, wholes.wall),
            ),
        )
        for at, row in rows
    ]


def _name(row: KernelRow, *, alike: bool) -> TableCell:
    """The name, with its class where the phase has the same kernel in another one."""
    mark = f" ({row.group})" if alike and row.group not in row.name else ""
    return NameCell(clean(f"{row.name}{mark}", 200))


def _kernel_cells(
    row: KernelRow, steps: int, whole: float | None, wall: float | None
) -> tuple[TableCell, ...]:
    calls = row.calls / steps
    return (
        TableCell(clean(row.group, 20), "muted"),
        TableCell(clean(row.phase, 20), row.phase if row.phase in PHASE_ROLES else "muted"),
        _figure_cell(calls, f"{calls:,.0f}" if row.calls % steps == 0 else f"{calls:,.1f}"),
        _figure_cell(1e3 * row.avg_ms, milliseconds_text(1e3 * row.avg_ms)),
        _figure_cell(_us(row.std_ms), milliseconds_text(_us(row.std_ms)), "muted"),
        _figure_cell(row.total_ms / steps, milliseconds_text(row.total_ms / steps), "title"),
        _share_cell(row.total_ms, whole),
        _share_cell(row.total_ms, wall),
        TableCell(clean(row.op or "unattributed", 80), "muted"),
        TableCell(clean(row.module or "unattributed", 80), "muted"),
    )


def _us(value: float | None) -> float | None:
    return None if value is None else 1e3 * value


def _figure_cell(value: float | None, text: str, role: str = "text") -> TableCell:
    return TableCell(text, role, value)


def _share_cell(part: float, whole: float | None) -> TableCell:
    share = 100 * part / whole if whole else None
    return TableCell(number_text(share, 1), "text", share)
