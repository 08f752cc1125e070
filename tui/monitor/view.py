"""The Monitor view: the cards and the host of this machine, whatever runs on them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.widgets import Input

from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.host import HostedView
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable
from llmprof.tui.monitor.bindings import MONITOR_BINDINGS
from llmprof.tui.monitor.feed import MonitorFeed, MonitorSnapshot
from llmprof.tui.monitor.machine import MachinePanels, Sight
from llmprof.tui.session.monitoring import Monitoring
from llmprof.tui.terminal.textual_inside import is_behind

MONITOR_WINDOWS_S = (
    60.0,
    300.0,
    600.0,
    1800.0,
)  # seconds; histories reach further than the longest


class MonitorView(HostedView):
    """Its own state: card in sight, time window, grid or one card, pause, filter."""

    VIEW = "monitor"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = MONITOR_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.paused = False
        self.zoom = 0
        self.index: int | None = None  # card in sight; None: the first
        self._feed: MonitorFeed | None = None
        self._shown = MonitorSnapshot()
        self._timer: Timer | None = None

    def compose_body(self) -> ComposeResult:
        """The panels."""
        yield MachinePanels()

    def on_mount(self) -> None:
        """The sampler starts with the view's first sight; the table has the keys."""
        if not self._monitoring.of_run:
            self._feed = MonitorFeed(self._monitoring)
        rate = 1 / self.host.setting.refresh_hz
        self._timer = self.set_interval(rate, self.look_again, pause=True)
        self.query_one("#processes", RowTable).focus()
        self._in_sight(True)

    @property
    def _monitoring(self) -> Monitoring:
        return self.host.setting.monitoring or Monitoring()

    def on_unmount(self) -> None:
        """The sampler ends with the view."""
        if self._feed is not None:
            self._feed.close()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """In sight: counters that cost something are read again."""
        super().on_screen_resume(event)
        self._in_sight(True)

    def on_screen_suspend(self) -> None:
        """Out of sight: the history goes on, drawing and dear counters do not."""
        self._in_sight(False)

    def look_again(self) -> None:
        """Show what is new, unless paused or the terminal still has frames to take."""
        if self.paused or is_behind(self.app):
            return
        latest = self._shown if self._feed is None else self._feed.latest
        if latest is not self._shown:
            self._shown = latest
            self.show_machine()

    def take(self, snapshot: Snapshot) -> None:
        """The run in sight says nothing here, unless its own samples are shown."""
        if self._monitoring.of_run and not self.paused:
            self._shown = MonitorSnapshot(snapshot.view, snapshot.error, "recording")
            self.show_machine()
        self.look_again()

    def set_status(self, status: Row) -> None:
        """What the header says at the right: of a recording, that it is one."""
        monitoring = self._monitoring
        if monitoring.recorded is not None:
            status = []
            for text in monitoring.recorded:  # what there is no room for is left out from the left
                status += [(self.host.look.text(clean(text, 40)), "muted"), ("  ", "")]
            status.append(("recording", "warn"))
        super().set_status(status)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A grid and other cards only where there are several, a filter where there is one."""
        if action == "filter":
            return not self.has_class("-none")
        return self.has_class("-many") if action in ("grid", "card") else True

    def show_machine(self) -> None:
        """Bring every panel up to date."""
        indices = self._indices()
        before = self.has_class("-none"), self.has_class("-many")
        now = not indices, len(indices) > 1
        if before != now:
            self.set_class(now[0], "-none")
            self.set_class(now[1], "-many")
            self.give_keys(self.query_one("#processes", RowTable))
            self.refresh_bindings()
        sight = Sight(
            MONITOR_WINDOWS_S[self.zoom], self.index, self.has_class("-grid"), self.paused
        )
        self.query_one(MachinePanels).show(self._shown, sight)

    def _indices(self) -> list[int]:
        cards = self._shown.view.cards
        return sorted(index for index, card in cards.items() if card.last is not None)

    def _in_sight(self, seen: bool) -> None:
        if self._feed is not None:
            self._feed.show_activity(seen)
        if self._timer is not None:
            if seen:
                self._timer.resume()
            else:
                self._timer.pause()

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Look at the card under the cursor."""
        if message.table.id == "cards":
            self.index = int(message.key)
            self.show_machine()

    def on_row_table_selected(self, message: RowTable.Selected) -> None:
        """Show the row in full."""
        message.stop()
        self.show_row(message.table)

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one("#processes", RowTable).set_filter(message.value)

    def on_input_submitted(self) -> None:
        """Back to the table, filtered."""
        self.query_one("#processes", RowTable).focus()

    def action_grid(self) -> None:
        """All cards at once, or one at large."""
        self.toggle_class("-grid")
        self.call_after_refresh(self.show_machine)

    def action_card(self, by: int) -> None:
        """Another card."""
        indices = self._indices()
        if indices:
            at = indices.index(self.index) if self.index in indices else 0
            self.index = indices[(at + by) % len(indices)]
            self.query_one("#cards", RowTable).put_cursor(str(self.index))
            self.show_machine()

    def action_zoom(self) -> None:
        """Another stretch of time."""
        self.zoom = (self.zoom + 1) % len(MONITOR_WINDOWS_S)
        self.show_machine()

    def action_pause(self) -> None:
        """Hold the picture, or go on with the newest."""
        self.paused = not self.paused
        self.show_machine()
        self.look_again()

    def action_filter(self) -> None:
        """Show the filter."""
        self.add_class("-filter")
        self.query_one("#process-filter", Input).focus()

    def action_unfilter(self) -> None:
        """All processes."""
        self.query_one("#process-filter", Input).value = ""
        self.remove_class("-filter")
        self.query_one("#processes", RowTable).focus()
