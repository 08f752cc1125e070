"""A table that draws only the rows in sight, however many there are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.table_cells import TableColumn, TableRow, fit, sort_key, sortable
from llmprof.tui.kit.words import longest_word, told_apart

LEAST_WORDS = 40  # columns for what did not fit into its cell, else the note makes room


class RowTable(Canvas, can_focus=True):
    """Rows with a cursor, an order and a filter, which are the table's own view state."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up", tooltip="row above"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down", tooltip="row below"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up",
                tooltip="a page up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page_down",
                tooltip="a page down"),
        Binding("home", "move(-1000000)", "First", show=False, id="table.first",
                tooltip="first row"),
        Binding("end", "move(1000000)", "Last", show=False, id="table.last", tooltip="last row"),
        Binding("o", "order", "Sort", show=False, id="table.order",
                tooltip="sort by the next column"),
        Binding("O", "reverse", "Reverse", show=False, id="table.reverse",
                tooltip="turn the order round"),
        Binding("enter", "select", "Open", show=False, id="table.select",
                tooltip="open the row under the cursor"),
    ]  # fmt: skip

    class Moved(Message):
        """The cursor stands on another row because of the user."""

        def __init__(self, table: RowTable, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

    class Selected(Message):
        """A row was opened with enter or a second click."""

        def __init__(self, table: RowTable, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

    def __init__(self, title: str, empty: str, *, id: str) -> None:
        super().__init__(id=id)
        self.title = title
        self.empty = empty
        self.note = ""
        self.spells_out = False  # the heading holds what the cursor's row had to cut
        self.columns: tuple[TableColumn, ...] = ()
        self.rows: tuple[TableRow, ...] = ()
        self.cursor: str | None = None
        self.order: tuple[int, bool] | None = None  # column, falling
        self.filter = ""
        self._shown: list[TableRow] = []
        self._longest: list[int] = []  # texts of the columns
        self._words: list[int] = []  # the longest one of each column
        self._widths: list[int] = []
        self._apart: dict[tuple[int, int], dict[str, str]] = {}  # by column and its width
        self._top = 0

    def show(self, columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> None:
        """Take columns and rows; the cursor stays on its key."""
        self.columns, self.rows = tuple(columns), tuple(rows)
        self._arrange()
        self.repaint()

    def put_cursor(self, key: str | None) -> None:
        """Put the cursor on a row without telling anybody."""
        if key != self.cursor:
            self.cursor = key
            self.repaint()

    def set_filter(self, text: str) -> None:
        """Show only rows in which some cell contains the text, in any case."""
        self.filter = text
        self._arrange()
        self.repaint()

    @property
    def current(self) -> str | None:
        """Key of the row under the cursor, None while no row is shown."""
        return self._shown[self._position()].key if self._shown else None

    @property
    def shown_keys(self) -> list[str]:
        """Keys of the rows in their order on the screen."""
        return [row.key for row in self._shown]

    @property
    def current_row(self) -> TableRow | None:
        """The row under the cursor, None while no row is shown."""
        return self._shown[self._position()] if self._shown else None

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, column titles, the rows in sight."""
        layout = self._layout(width)
        room = max(1, height - 2)
        if self._shown:
            self._scroll(room)
        out: list[Row] = [self._heading(width, layout, room)]
        if not self._shown:
            text = "no row matches the filter" if self.rows and self.filter else self.empty
            lines = textwrap.wrap(self.look.text(text), max(10, width))
            return [*out, *([(line, "muted")] for line in lines)]
        out.append(self._titles(layout))
        in_sight = self._shown[self._top : self._top + room]
        return [*out, *(self._line(row, layout, width) for row in in_sight)]

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        if not self._shown:
            return
        at = min(len(self._shown) - 1, max(0, self._position() + by))
        if self._shown[at].key != self.cursor:
            self.cursor = self._shown[at].key
            self.post_message(self.Moved(self, self.cursor))
        self.repaint()

    def action_page(self, by: int) -> None:
        """Move the cursor by a screenful."""
        self.action_move(by * max(1, self.size.height - 3))

    def action_order(self) -> None:
        """Sort by the next column; after the last one, back to the natural order."""
        at = -1 if self.order is None else self.order[0]
        self.order = (at + 1, False) if at + 1 < len(self.columns) else None
        self._arrange()
        self.repaint()

    def action_reverse(self) -> None:
        """Turn the order round."""
        if self.order is not None:
            self.order = (self.order[0], not self.order[1])
            self._arrange()
            self.repaint()

    def action_select(self) -> None:
        """Open the row under the cursor."""
        if self._shown:
            self.post_message(self.Selected(self, self._shown[self._position()].key))

    def on_click(self, event: events.Click) -> None:
        """Move to the clicked row; a double click opens it."""
        at = self._top + event.y - 2
        if event.y >= 2 and at < len(self._shown):
            self.action_move(at - self._position())
            if event.chain == 2:
                self.action_select()

    def on_mouse_scroll_down(self) -> None:
        """Three rows down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Three rows up."""
        self.action_move(-3)

    def _position(self) -> int:
        return next((n for n, row in enumerate(self._shown) if row.key == self.cursor), 0)

    def _arrange(self) -> None:
        wanted = self.filter.casefold()
        rows = [
            row
            for row in self.rows
            if not wanted or any(wanted in cell.text.casefold() for cell in row.cells)
        ]
        if self.order is not None and self.order[0] < len(self.columns):
            column, falling = self.order
            known = [row for row in rows if sortable(row.cells[column])]
            rest = [row for row in rows if not sortable(row.cells[column])]
            known.sort(key=lambda row: sort_key(row.cells[column]), reverse=falling)
            rows = known + rest  # unknown figures stay last in either direction
        self._longest = [
            max((cell_len(row.cells[at].text) for row in self.rows), default=0)
            for at in range(len(self.columns))
        ]
        self._words = [
            max((longest_word(row.cells[at].short or row.cells[at].text) for row in self.rows),
                default=0)
            for at in range(len(self.columns))
        ]  # fmt: skip
        self._widths = self._needed_widths()
        self._apart.clear()
        self._shown = rows
        if rows and all(row.key != self.cursor for row in rows):
            self.cursor = rows[0].key

    def _scroll(self, room: int) -> None:
        at = self._position()
        self._top = min(max(self._top, at - room + 1), at, max(0, len(self._shown) - room))

    def _layout(self, width: int) -> list[tuple[int, int]]:
        """Positions and widths of the columns that fit; the first column always does."""
        kept, gone = list(range(len(self.columns))), list[int]()
        while len(kept) > 1 and self._needed(kept) > width:
            last = max(kept[1:], key=lambda at: (self.columns[at].priority, at))
            kept.remove(last)
            gone.append(last)
        for at in sorted(gone, key=lambda at: (self.columns[at].priority, at)):
            if self._needed([*kept, at]) <= width:  # narrower than one that went after it
                kept = sorted([*kept, at])
        spare = max(0, width - self._needed(kept))
        widths = {at: self._widths[at] for at in kept}
        for at in kept:  # what is left after that stays at the right, and figures by their names
            extra = min(spare, max(0, self._longest[at] - widths[at]))
            widths[at], spare = widths[at] + extra, spare - extra
        return list(widths.items())

    def _needed(self, kept: list[int]) -> int:
        return 2 + sum(self._widths[at] + 2 for at in kept) - 2

    def _needed_widths(self) -> list[int]:
        """Columns as wide as their titles and words, those of figures as their longest: no figure
        or word is ever cut, a column that finds no room is left out."""
        sorted_by = None if self.order is None else self.order[0]
        return [
            max(
                column.width,
                cell_len(column.title) + (2 if at == sorted_by else 0),
                self._longest[at] if column.align == "right" else self._words[at],
            )
            for at, column in enumerate(self.columns)
        ]

    def _heading(self, width: int, layout: list[tuple[int, int]], room: int) -> Row:
        """Title and note; at the right what the cursor's row had to cut, and where in the rows
        those in sight are, if they are not all.
        """
        note = f"filter: {self.filter}" if self.filter else self.note
        place = self._place(room)
        row = next((row for row in self._shown if row.key == self.cursor), None)
        cut = [] if row is None or not self.spells_out else [
            row.cells[at] for at, size in layout if cell_len(row.cells[at].text) > size
        ]  # fmt: skip
        if not cut:
            lost = self.has_focus and not self._shown  # there is no row to show the cursor on
            free = width - cell_len(self.title) - cell_len(note) - 4
            said = (place, f"{len(self._shown)} rows" if place else "", "")  # the note goes first
            place = next(text for text in said if cell_len(text) <= max(0, free))
            right: Row = [(place, "muted")] if place else []
            return heading(self.look, width, self.title, note, right, focused=lost)
        taken = len(self.title) + (cell_len(place) + 2 if place else 0)
        if width - taken - cell_len(note) < LEAST_WORDS and not self.filter:
            note = ""
        free = max(1, width - taken - cell_len(note) - 6)
        text = self.look.text(cut[-1].text)
        text = fit(text, min(free, cell_len(text)), "left", self.look.ellipsis)
        right = [(text, cut[-1].role), *([("  ", ""), (place, "muted")] if place else [])]
        return heading(self.look, width, self.title, note, right)

    def _place(self, room: int) -> str:
        """Which rows are in sight, of how many; nothing where all are."""
        total = len(self._shown)
        if total <= room:
            return ""
        first, last = self._top + 1, min(self._top + room, total)
        return f"{first} of {total}" if first == last else f"{first}–{last} of {total}"

    def _titles(self, layout: list[tuple[int, int]]) -> Row:
        row: Row = [("  ", "")]
        for at, width in layout:
            column = self.columns[at]
            title = self.look.text(column.title)
            if self.order is not None and self.order[0] == at:
                arrow = self.look.down if self.order[1] else self.look.up
                title = f"{title} {arrow}"
            row += [(fit(title, width, column.align), "muted"), ("  ", "")]
        return row

    def _line(self, row: TableRow, layout: list[tuple[int, int]], width: int) -> Row:
        here = row.key == self.cursor
        back = "+cursor" if here and self.has_focus else ""
        out: Row = [(f"{self.look.cursor if here else ' '} ", f"accent{back}")]
        for at, size in layout:
            cell, column = row.cells[at], self.columns[at]
            text = self.look.text(cell.shown(size))
            text = self._without_middle(at, size).get(text, text)
            text = fit(text, size, column.align, self.look.ellipsis)
            out += [(text, f"{cell.role}{back}"), ("  ", f"text{back}")]
        rest = width - row_length(out)
        return [*out, (" " * rest, f"text{back}")] if rest > 0 else out

    def _without_middle(self, at: int, size: int) -> dict[str, str]:
        """What stands for those texts of a column that would look alike with their ends cut."""
        if self._longest[at] <= size:
            return {}
        found = self._apart.get((at, size))
        if found is None:
            texts = [self.look.text(row.cells[at].shown(size)) for row in self._shown]
            found = self._apart[at, size] = told_apart(texts, size, self.look.ellipsis)
        return found
