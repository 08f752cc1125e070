"""A report's table as a dialog: the figures of a row on one line, its other words below."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from llmprof.core.report.table import Column, Table, format_cell
from llmprof.core.system.text import clean
from llmprof.tui.kit.dialog import Dialog

WORKING = "working it out"
UNKNOWN = "nothing is known of it"
_Cells = tuple[str, ...]


class TableDialog(Dialog[str]):
    """Works the table out in a thread, since it may take seconds; scrolled with the arrow keys."""

    DEFAULT_CSS = """
    TableDialog #table-scroll { height: 1fr; scrollbar-size-vertical: 1; }
    TableDialog #table-text { height: auto; }
    """

    def __init__(self, title: str, make: Callable[[], Table | None]) -> None:
        super().__init__()
        self._title, self._make = title, make
        self._text: Callable[[int], str] = lambda _: WORKING

    def compose(self) -> ComposeResult:
        """Title, table."""
        look = self.host.look
        with Vertical(classes="box wide"):
            yield Static(look.text(self._title), markup=False, classes="dialog-title")
            with VerticalScroll(id="table-scroll"):
                yield Static(WORKING, markup=False, id="table-text")
            yield Static("esc closes", markup=False, classes="dialog-note")

    def on_mount(self) -> None:
        """The table scrolls, and is made."""
        self.query_one("#table-scroll").focus()
        self.run_worker(self._work, thread=True, exit_on_error=False)

    def on_resize(self) -> None:
        """Another width, other lines."""
        self.call_after_refresh(self._show)

    def _work(self) -> None:
        try:
            table = self._make()
        except Exception as error:  # a thread's exceptions would leave "working it out"
            problem = clean(f"not worked out: {error}", 300)
            self._text = lambda _: problem
        else:
            self._text = partial(text_of, table) if table is not None else lambda _: UNKNOWN
        self.app.call_from_thread(self._show)

    def _show(self) -> None:
        if self.is_attached:
            width = self.query_one(".box").size.width or self.size.width
            text = self._text(max(30, width - 2))
            self.query_one("#table-text", Static).update(self.host.look.text(text))


def text_of(table: Table, width: int) -> str:
    """The table in lines of a width: its first note, its rows, its other notes."""
    first, *others = table.notes or ("",)
    cells = [tuple(clean(format_cell(cell), 400) for cell in row) for row in table.rows]
    lines = [*textwrap.wrap(_plain(first), width), "", *_rows(table.columns, cells, width)]
    for note in others:
        lines += ["", *textwrap.wrap(_plain(note), width, break_on_hyphens=False)]
    return "\n".join(lines)


def _rows(columns: Sequence[Column], cells: Sequence[_Cells], width: int) -> list[str]:
    """Name, figures and the last column of each row on a line, what is between them below it."""
    shown = [0, *(at for at, each in enumerate(columns) if each.numeric), len(columns) - 1]
    headings = tuple(column.heading for column in columns)
    widths = {at: max(len(row[at]) for row in (headings, *cells)) for at in shown[1:]}
    name = min(
        max(len(row[0]) for row in (headings, *cells)),
        width - sum(widths.values()) - 2 * len(widths),
    )
    lines = []
    for row in (headings, *cells):
        first, *more = textwrap.wrap(row[0], name) or [""]
        figures = (
            f"{row[at]:>{size}}" if columns[at].numeric else f"{row[at]:<{size}}"
            for at, size in widths.items()
        )
        lines.append("  ".join((f"{first:<{name}}", *figures)).rstrip())
        lines += more
        if row is not headings:
            words = [row[at] for at in range(len(columns)) if at not in shown and row[at]]
            lines += _below(words, width)
    return lines


def _below(words: Sequence[str], width: int) -> list[str]:
    """Words on one indented line where they fit, else one below another."""
    together = "   ".join(words)
    parts = [together] if len(together) + 2 <= width else words
    return [
        line
        for part in parts
        for line in textwrap.wrap(part, width, initial_indent="  ", subsequent_indent="    ")
    ]


def _plain(note: str) -> str:
    return clean(note.replace("`", ""), 600)
