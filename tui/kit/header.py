"""The first line: name, views as tabs, and at its right end a status that it is given."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length

NAME: Row = [("llmprof", "accent"), ("  ", "")]


class Header(Canvas):
    """Tabs of all views, the current one marked; a click on a tab shows its view."""

    DEFAULT_CSS = """
    Header { height: 1; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.status: Row = []
        self._tabs: list[tuple[int, int, str]] = []

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """One row; where not even the status's end has room, the name leaves it its own, then
        the gaps."""
        tabs = sum(len(f"{tab.key} {tab.label}  ") for tab in self.host.tabs)
        last = row_length(self.status[-1:])
        named = width - tabs - row_length(NAME) >= last
        gap = "  " if width - tabs >= last else " "
        row: Row = list(NAME) if named else []
        self._tabs = []
        for tab in self.host.tabs:
            start = row_length(row)
            here = self.screen.id == tab.view
            row += [(f"{tab.key} ", "muted"), (tab.label, "title" if here else "muted")]
            self._tabs.append((start, row_length(row), tab.view))
            row.append((gap, ""))
        room = width - row_length(row)
        status = _cut(self.status, room)
        return [[*row, (" " * (room - row_length(status)), ""), *status]]

    def on_click(self, event: events.Click) -> None:
        """Show the view whose tab was clicked."""
        for start, end, view in self._tabs:
            if start <= event.x - 1 < end:
                self.app.switch_mode(view)


def _cut(row: Row, width: int) -> Row:
    """The end of a row that fits into `width` columns, whole runs only."""
    out: Row = []
    for run in reversed(row):
        if row_length([run, *out]) > width:
            break
        out.insert(0, run)
    return out
