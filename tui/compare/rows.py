"""A report's table as one of the screen's."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.report.table import Cell, Figure, Table, format_cell
from llmprof.core.system.text import clean
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow

MOST_WIDTH = 44
LEAST_WIDTH = 18  # of the last column, which grows where there is room
# In this order columns leave where there is no room; what is not named stays longest.
_PRIORITIES = {"A 95 %": 4, "B 95 %": 4, "Counted": 5, "95 % interval": 2, "Difference": 1}
_SHORT_TITLES = {"Part of the step": "Part"}  # room for the intervals of both runs
_ROLES = {"faster": "good", "slower": "bad", "not distinguished": "muted", "~": "muted"}


def columns_of(table: Table) -> tuple[TableColumn, ...]:
    """Headings with their units, as wide as what stands below them."""
    return tuple(
        TableColumn(
            title,
            _width(title, [row[at] for row in table.rows], LEAST_WIDTH if last else MOST_WIDTH),
            "right" if column.numeric else "left",
            priority=_PRIORITIES.get(column.header, 0),
        )
        for at, column in enumerate(table.columns)
        for title in (_SHORT_TITLES.get(column.heading, column.heading),)
        for last in (at == len(table.columns) - 1,)
    )


def rows_of(table: Table) -> list[TableRow]:
    """One row a row; figures sort by their value."""
    return [
        TableRow(str(number), tuple(_cell(cell) for cell in row))
        for number, row in enumerate(table.rows)
    ]


def _width(heading: str, cells: Sequence[Cell], most: int) -> int:
    return min(most, max([len(heading), *(len(_text(cell)) for cell in cells)]))


def _cell(cell: Cell) -> TableCell:
    text = _text(cell)
    value = cell.value if isinstance(cell, Figure) else None
    return TableCell(text, _ROLES.get(text, "text"), value)


def _text(cell: Cell) -> str:
    return clean(format_cell(cell), 200)
