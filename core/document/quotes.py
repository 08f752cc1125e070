"""Numbers in prose are cells of a table: a sentence quotes them, it never formats its own."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from llmprof.core.report.lean import lean
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell

SIZE = "Size"  # the column by which a table is cut evenly
MOST_ROWS = 12  # of a table before the appendix
IN_APPENDIX = "the appendix has all"
IN_CSV = "the CSV file of tables that is written beside a document has all"
PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Quote:
    """A cell as it stands in its table: the table's key, the row's key, the column's heading."""

    text: str
    table: str
    row: Hashable
    column: str


Sentence = tuple[str | Quote, ...]


def plain(sentence: Sentence) -> str:
    """A sentence as text."""
    return "".join(shown(each) for each in sentence)


def shown(piece: str | Quote) -> str:
    """A piece of a sentence as text; a cell with a sign that is a minus and no hyphen."""
    return piece if isinstance(piece, str) else piece.text


def joined(parts: Iterable[Sentence], between: str = ", ") -> Sentence:
    """Parts in a row."""
    pieces: list[str | Quote] = []
    for part in parts:
        pieces += [between, *part] if pieces else part
    return tuple(pieces)


def listed(parts: Sequence[Sentence]) -> Sentence:
    """Parts in a row, the last after "and"."""
    *first, last = parts
    return (*joined(first), " and ", *last) if first else last


def unknown(cell: Cell) -> bool:
    """Whether a cell holds no value, which documents leave blank."""
    return cell is None or (isinstance(cell, Figure) and cell.value is None)


def cell_text(cell: Cell) -> str:
    """A cell as documents show it, in a table and in prose alike."""
    text = "" if unknown(cell) else format_cell(cell)
    if not isinstance(cell, str) and text.startswith("-"):
        return f"−{text[1:]}"
    return text


def number(quote: Quote) -> float:
    """The value of a cell that holds a number. Raises ValueError for another."""
    return float(quote.text.replace("−", "-").replace(",", ""))


@dataclass(frozen=True)
class KeyedTable:
    """A table whose rows have keys, by which sentences quote its cells."""

    table: Table
    keys: tuple[Hashable, ...]

    def quote(self, key: Hashable, header: str) -> Quote:
        """A cell, of the column with this heading, else of the first with this header.

        Raises KeyError for a row or a column that isn't there.
        """
        if key not in self.keys:
            raise KeyError(key)
        at = self._column(header)
        if at is None:
            raise KeyError(header)
        cell = self.table.rows[self.keys.index(key)][at]
        return Quote(cell_text(cell), self.table.key, key, header)

    def told(self, key: Hashable, text: str, /, **pieces: str | Sentence) -> Sentence:
        """A sentence about a row: `{Step}` in its text is that cell, `{name}` one of the pieces.

        Names from outside come as pieces, for a text may hold no other braces.
        """
        found: list[str | Quote] = []
        for at, part in enumerate(PLACE.split(text)):
            if at % 2 == 0:
                found.append(part)
            elif part in pieces:
                piece = pieces[part]
                found += [piece] if isinstance(piece, str) else piece
            else:
                found.append(self.quote(key, part))
        return tuple(each for each in found if each != "")

    def knows(self, key: Hashable, *headers: str) -> bool:
        """Whether a row has a figure in all of these columns."""
        return all(self.known(key, header) for header in headers)

    def _column(self, header: str) -> int | None:
        for names in (
            [each.heading for each in self.table.columns],
            [each.header for each in self.table.columns],
        ):
            if header in names:
                return names.index(header)
        return None

    def known(self, key: Hashable, header: str) -> bool:
        """Whether there is a row of this key with a figure in this column."""
        try:
            return self.quote(key, header).text != ""
        except KeyError:
            return False

    def shortened(self, wanted: Iterable[Hashable] = (), most: int = MOST_ROWS) -> KeyedTable:
        """At most so many rows in their order: the wanted first, then of each size in turn."""
        if len(self.keys) <= most:
            return self
        first = [key for key in dict.fromkeys(wanted) if key in self.keys]
        left = [key for key in self.keys if key not in set(first)]
        kept = set([*first, *self._in_turns(left)][:most])
        rows = tuple(
            row for key, row in zip(self.keys, self.table.rows, strict=True) if key in kept
        )
        keys = tuple(key for key in self.keys if key in kept)
        return KeyedTable(replace(self.table, rows=rows), keys)

    def _in_turns(self, keys: list[Hashable]) -> list[Hashable]:
        """Keys so that each size comes before the second row of any."""
        at = next((i for i, each in enumerate(self.table.columns) if each.header == SIZE), None)
        if at is None:
            return keys
        seen: dict[str, int] = {}
        turns = []
        rows = dict(zip(self.keys, self.table.rows, strict=True))
        for position, key in enumerate(keys):
            size = cell_text(rows[key][at])
            seen[size] = seen.get(size, 0) + 1
            turns.append((seen[size], position, key))
        return [key for _, _, key in sorted(turns, key=lambda turn: turn[:2])]

    @property
    def lean(self) -> KeyedTable:
        """Without columns that are empty in every row."""
        rows = self.table.rows
        kept = [
            at for at in range(len(self.table.columns)) if any(cell_text(row[at]) for row in rows)
        ]
        columns = tuple(self.table.columns[at] for at in kept)
        return KeyedTable(
            replace(
                self.table,
                columns=columns,
                rows=tuple(tuple(row[at] for at in kept) for row in rows),
            ),
            self.keys,
        )


def keyed(
    key: str,
    title: str,
    columns: Iterable[Column],
    rows: Iterable[tuple[Hashable, tuple[Cell, ...]]],
    notes: tuple[str, ...] = (),
) -> KeyedTable | None:
    """A table from rows with their keys; None without rows. Notes hold no figures."""
    listed = list(rows)
    if not listed:
        return None
    table = Table(key, title, tuple(columns), tuple(cells for _, cells in listed), notes)
    return KeyedTable(table, tuple(each for each, _ in listed)).lean


def page_table(
    whole: KeyedTable, rows: Iterable[Hashable], columns: Iterable[str], less: frozenset[str]
) -> KeyedTable:
    """A table as a page has it: few rows and columns, what all rows share in one line.

    rows and columns are quoted by sentences and stay; less are columns that may go.
    """
    short = whole.shortened(rows)
    bare = replace(short.table, notes=())  # they stand in the method
    return KeyedTable(condensed(bare, less - frozenset(columns)), short.keys)


def rows_left_out(shown: int, rows: int, where: str) -> tuple[str, ...]:
    """The note of a table that shows a part of its rows; none of one that shows all."""
    left = rows - shown
    return (f"{left:,} of {rows:,} rows are left out here; {where}.",) if left else ()


def condensed(table: Table, gone: frozenset[str] = frozenset()) -> Table:
    """A table as documents show it."""
    return lean(table, cell_text, gone)
