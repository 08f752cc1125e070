"""A row of a table in full: every column, whatever the table had to cut or leave out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from llmprof.tui.kit.dialog import Dialog
from llmprof.tui.kit.table_cells import TableColumn, TableRow


class RowDialog(Dialog[str]):
    """Title and text of each column, wrapped; scrolled with the arrow keys."""

    DEFAULT_CSS = """
    RowDialog #row-scroll { height: auto; max-height: 20; scrollbar-size-vertical: 1; }
    RowDialog #row-text { height: auto; }
    """

    def __init__(self, title: str, columns: Sequence[TableColumn], row: TableRow) -> None:
        super().__init__()
        self._title, self._columns, self._row = title, columns, row

    def compose(self) -> ComposeResult:
        """Title, columns."""
        look = self.host.look
        width = min(64, self.app.size.width * 96 // 100) - 7  # of the box, without its edges
        left = max(len(column.title) for column in self._columns) + 2
        lines = [
            line
            for column, cell in zip(self._columns, self._row.cells, strict=True)
            for line in textwrap.wrap(
                cell.text, max(left + 10, width), initial_indent=column.title.ljust(left),
                subsequent_indent=" " * left, break_on_hyphens=False,
            )
        ]  # fmt: skip
        with Vertical(classes="box"):
            yield Static(look.text(self._title), markup=False, classes="dialog-title")
            with VerticalScroll(id="row-scroll"):
                yield Static(look.text("\n".join(lines)), markup=False, id="row-text")
            yield Static("esc closes", markup=False, classes="dialog-note")

    def on_mount(self) -> None:
        """The text scrolls."""
        self.query_one("#row-scroll").focus()
