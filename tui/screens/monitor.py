"""The Monitor view: the cards and the host of this machine, whatever runs on them."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import Input

from llmprof.core.events import CardSample
from llmprof.core.results import RunView
from llmprof.core.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.driver import BACKLOG
from llmprof.tui.feed import Snapshot
from llmprof.tui.monitor import MonitorFeed, Monitoring, MonitorSnapshot
from llmprof.tui.screens.view import View
from llmprof.tui.widgets.card_figures import CardFigures
from llmprof.tui.widgets.card_grid import CardGrid
from llmprof.tui.widgets.card_panel import (
    ActivityChart,
    CardChart,
    CardInSight,
    Window,
)
from llmprof.tui.widgets.field import FormInput
from llmprof.tui.widgets.host_panel import HostChart, HostLine
from llmprof.tui.widgets.process_table import (
    CARD_COLUMNS,
    COLUMNS,
    card_rows,
    process_rows,
    why_empty,
)
from llmprof.tui.widgets.table import Table

WINDOWS = (60.0, 300.0, 600.0, 1800.0)  # seconds; histories reach further than the longest
HOST_NS = 1_000_000_000  # the host's figures are shown for so long


class MonitorView(View):
    """Its own state: card in sight, time window, grid or one card, pause, filter."""

    VIEW = "monitor"
    LABEL = "Monitor"
    KEY = "m"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "grid", "Grid", id="monitor.grid", tooltip="all cards at once, or one large"),
        Binding("left_square_bracket", "card(-1)", "Card before", key_display="[", show=False,
                id="monitor.card_before", tooltip="the card before"),
        Binding("right_square_bracket", "card(1)", "Next card", key_display="]",
                id="monitor.next_card", tooltip="the next card"),
        Binding("z", "zoom", "Time", id="monitor.zoom",
                tooltip="time shown: 1, 5, 10 or 30 minutes"),
        Binding("space", "pause", "Pause", id="monitor.pause",
                tooltip="hold the picture; sampling goes on"),
        Binding("slash", "filter", "Filter", key_display="/", id="monitor.filter",
                tooltip="show only processes that contain a text"),
        Binding("escape", "unfilter", "Clear filter", show=False, id="monitor.unfilter",
                tooltip="show all processes again"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.paused = False
        self.zoom = 0
        self.index: int | None = None  # card in sight; None: the first
        self._feed: MonitorFeed | None = None
        self._shown = MonitorSnapshot()
        self._timer: Timer | None = None
        self._told: tuple[Row, int] = ([], -HOST_NS)
        self._listed: list[object] = []

    def compose_body(self) -> ComposeResult:
        """Host, cards, one card at large, processes."""
        with Vertical(id="monitor-body"):
            yield HostLine()
            yield HostChart()
            yield Table("Cards", "no cards", id="cards")
            yield CardGrid()
            with Horizontal(id="card"):
                with Vertical(id="card-curves"):
                    yield CardChart()
                    yield ActivityChart()
                yield CardFigures()
            yield Table("Processes", "no process holds memory on a card", id="processes")
            field = FormInput(
                placeholder="filter", compact=True, max_length=60, id="process-filter"
            )
            field.cursor_blink = False
            yield field

    def on_mount(self) -> None:
        """The sampler starts with the view's first sight; the table has the keys."""
        self._feed = MonitorFeed(self.llmprof.setting.monitoring or Monitoring())
        rate = 1 / self.llmprof.setting.refresh_hz
        self._timer = self.set_interval(rate, self.look_again, pause=True)
        self.query_one("#processes", Table).focus()
        self._in_sight(True)

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
        feed = self._feed
        if feed is None or self.paused or getattr(self.app._driver, "backlog", 0) > BACKLOG:
            return
        if feed.latest is not self._shown:
            self._shown = feed.latest
            self.show_machine()

    def take(self, snapshot: Snapshot) -> None:
        """The run in sight says nothing here; the machine does."""
        self.look_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A grid and other cards only where there are several."""
        return self.has_class("-many") if action in ("grid", "card") else True

    def show_machine(self) -> None:
        """Bring every panel up to date."""
        view = self._shown.view
        cards = [state.card for state in self._cards(view)]
        self.set_class(not cards, "-none")
        if self.has_class("-many") is not (len(cards) > 1):
            self.set_class(len(cards) > 1, "-many")
            self.refresh_bindings()
        self._show_host(view)
        window = WINDOWS[self.zoom]
        if not cards:
            self.query_one(HostChart).show(view, window)
        elif self.has_class("-many") and self.has_class("-grid"):
            self.query_one(CardGrid).show(self._cards(view))
        else:
            self._show_one(view)
        if len(cards) > 1:
            listing = self.query_one("#cards", Table)
            listing.show(CARD_COLUMNS, card_rows(cards))
            listing.styles.height = min(len(cards) + 2, 10)
        self._show_processes(cards)

    def _show_host(self, view: RunView) -> None:
        """The host's line, once a second unless what stands before it changed."""
        note = self._note()
        newest = 0 if view.last_sample is None else view.last_sample.t
        if note != self._told[0] or newest - self._told[1] >= HOST_NS:
            self._told = (note, newest)
            self.query_one(HostLine).show(view, note)

    def _show_processes(self, cards: list[CardSample]) -> None:
        listed: list[object] = [card.processes for card in cards]
        table = self.query_one("#processes", Table)
        table.empty = why_empty(cards)
        if listed != self._listed or not table.columns:
            self._listed = listed
            table.show(COLUMNS, process_rows(cards))

    def _show_one(self, view: RunView) -> None:
        states = self._cards(view)
        state = next((s for s in states if s.card.index == self.index), states[0])
        self.query_one(CardChart).show(state)
        self.query_one(ActivityChart).show(state)
        self.query_one(CardFigures).show(state)

    def _cards(self, view: RunView) -> list[CardInSight]:
        newest = 0 if view.last_sample is None else view.last_sample.t
        window = Window.up_to(newest, WINDOWS[self.zoom])
        return [
            CardInSight(history, window)
            for _, history in sorted(view.cards.items())
            if history.last is not None
        ]

    def _note(self) -> Row:
        if self._shown.error is not None:
            return [(clean(self._shown.error, 200), "bad"), ("  ", "")]
        sample = self._shown.view.last_sample
        row: Row = [(f"{WINDOWS[self.zoom] / 60:g} min  ", "muted")]
        if self.paused:
            row = [("paused  ", "warn")]
        if sample is not None and sample.cards and sample.cards_reason:
            row.append((f"{clean(sample.cards_reason, 120)}  ", "warn"))
        return row

    def _in_sight(self, seen: bool) -> None:
        if self._feed is not None:
            self._feed.show_activity(seen)
        if self._timer is not None:
            if seen:
                self._timer.resume()
            else:
                self._timer.pause()

    def on_table_moved(self, message: Table.Moved) -> None:
        """Look at the card under the cursor."""
        if message.table.id == "cards":
            self.index = int(message.key)
            self.show_machine()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one("#processes", Table).set_filter(message.value)

    def on_input_submitted(self) -> None:
        """Back to the table, filtered."""
        self.query_one("#processes", Table).focus()

    def action_grid(self) -> None:
        """All cards at once, or one at large."""
        self.toggle_class("-grid")
        self.call_after_refresh(self.show_machine)

    def action_card(self, by: int) -> None:
        """Another card."""
        indices = [state.card.index for state in self._cards(self._shown.view)]
        if indices:
            at = indices.index(self.index) if self.index in indices else 0
            self.index = indices[(at + by) % len(indices)]
            self.query_one("#cards", Table).put_cursor(str(self.index))
            self.show_machine()

    def action_zoom(self) -> None:
        """Another stretch of time."""
        self.zoom = (self.zoom + 1) % len(WINDOWS)
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
        self.query_one("#processes", Table).focus()
