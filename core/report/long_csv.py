"""Tables as CSV in long form: one row a cell, so that tables of any columns share one file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from llmprof.core.report.csv_cells import csv_cell
from llmprof.core.report.exports import bare
from llmprof.core.report.table import Table

COLUMNS = ("table", "title", "row", "column", "unit", "value")
NOTE = "note"  # column of the sentences below a table, which have no row


def to_cells(tables: Iterable[Table]) -> str:
    """Rows of COLUMNS; rows of a table count from 1, numbers are bare, unknowns empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in tables:
        for number, row in enumerate(table.rows, 1):
            for column, cell in zip(table.columns, row, strict=True):
                place = (table.key, table.title, number, column.header, column.unit)
                writer.writerow(map(csv_cell, (*place, bare(cell))))
        for note in table.notes:
            writer.writerow(map(csv_cell, (table.key, table.title, None, NOTE, None, str(note))))
    return out.getvalue()
