"""The first line: name, views as tabs, and what is being watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events

from llmprof.core.system.text import clean
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.views import VIEWS

if TYPE_CHECKING:
    from llmprof.tui.chart.cells import Row
    from llmprof.tui.kit.look import Look
    from llmprof.tui.session.session import Session


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
        """One row; the status is cut before the tabs are."""
        row: Row = [("llmprof", "accent"), ("  ", "")]
        self._tabs = []
        for view in VIEWS:
            start = row_length(row)
            here = self.screen.id == view.VIEW
            row += [(f"{view.KEY} ", "muted"), (view.LABEL, "title" if here else "muted")]
            self._tabs.append((start, row_length(row), view.VIEW))
            row.append(("  ", ""))
        room = width - row_length(row)
        status = _cut(self.status, room)
        return [[*row, (" " * (room - row_length(status)), ""), *status]]

    def on_click(self, event: events.Click) -> None:
        """Show the view whose tab was clicked."""
        for start, end, view in self._tabs:
            if start <= event.x - 1 < end:
                self.app.switch_mode(view)


def watched(session: Session, look: Look, *, replayed: bool = False) -> Row:
    """Device and state of the run that is watched, for the header's right end.

    What is replayed is never called live: its device may be another than this machine's.
    """
    if session.run is None:
        return []
    view = session.snapshot.view
    row: Row = []
    if view.environment is not None:
        row += [(look.text(clean(view.environment.device_name, 40)), "muted"), ("  ", "")]
    if session.snapshot.loading:
        row.append(("reading", "muted"))
    elif session.paused:
        row.append(("paused", "warn"))
    elif session.alive:
        row.append((f"{look.on} replay", "warn") if replayed else (f"{look.on} live", "accent"))
    else:
        row.append((view.outcome or "interrupted", "muted"))
    return row


def _cut(row: Row, width: int) -> Row:
    """The end of a row that fits into `width` columns, whole runs only."""
    out: Row = []
    for run in reversed(row):
        if row_length([run, *out]) > width:
            break
        out.insert(0, run)
    return out
