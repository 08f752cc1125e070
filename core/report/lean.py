"""Tables without what says nothing: what all rows share is a line, the same share stands once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmprof.core.report.table import Cell, Table, format_cell

COMMON = "In every row: "  # begins the line that holds the cells which all rows share
LEAST_COLUMNS = 2
NOTHING = frozenset({"", "n/a"})
SINGULAR = {"processes": "process", "steps": "step", "tokens": "token"}


def lean(
    table: Table,
    text: Callable[[Cell], str] = format_cell,
    gone: frozenset[str] = frozenset(),
) -> Table:
    """A table without some columns and without blank ones; its first note is what rows share.

    Of a table with several rows a column of one value becomes part of that line, as long as
    LEAST_COLUMNS are left, and a share that repeats another's figures goes.
    """
    texts = [tuple(map(text, row)) for row in table.rows]
    kept: list[int] = []
    common: list[str] = []
    shares: dict[tuple[str, ...], int] = {}
    for at, column in enumerate(table.columns):
        values = tuple(row[at] for row in texts)
        if column.header in gone or (values and set(values) <= NOTHING):
            continue
        if column.unit == "%" and shares.setdefault(values, at) != at:
            continue
        if len(values) > 1 and len(set(values)) == 1:
            common.append(f"{column.header} {with_unit(values[0], column.unit)}")
        else:
            kept.append(at)
    if len(kept) < LEAST_COLUMNS:
        return table
    line = (f"{COMMON}{'; '.join(common)}.",) if common else ()
    return replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
        notes=(*line, *table.notes),
    )


def with_unit(text: str, unit: str) -> str:
    """A cell's text with its column's unit, which words have not; 1 process."""
    figure = text.removeprefix("under ").lstrip("-−+±<> ")[:1].isdigit()
    if not unit or not figure:
        return text
    return f"{text} {SINGULAR.get(unit, unit) if text == '1' else unit}"
