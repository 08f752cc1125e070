"""The panels of the Monitor view: host, cards, one card at large, processes."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from llmprof.core.events import CardSample
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean, clock
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.filter import FilterInput
from llmprof.tui.kit.table import RowTable
from llmprof.tui.monitor.card_figures import CardFigures
from llmprof.tui.monitor.card_grid import CardGrid
from llmprof.tui.monitor.card_panel import ActivityChart, CardChart, CardInSight, Window
from llmprof.tui.monitor.feed import MonitorSnapshot
from llmprof.tui.monitor.host_panel import HostChart, HostLine
from llmprof.tui.monitor.process_table import (
    CARD_COLUMNS,
    PROCESS_COLUMNS,
    card_rows,
    process_rows,
    why_empty,
)

HOST_NS = 1_000_000_000  # the host's figures are shown for so long
MOST_CARD_LINES = {False: 6, True: 10}  # lines of the list of cards, by whether the window is tall
PROCESSES = {False: (4, 6), True: (4, 9)}  # least and most lines; more where a third is more
CARD_LINES = {False: 10, True: 14}  # for both charts of a card; below that the first is alone


@dataclass(frozen=True)
class Sight:
    """What of a machine is looked at."""

    window_s: float
    index: int | None = None  # the card at large; None: the first
    grid: bool = False
    paused: bool = False


class MachinePanels(Vertical):
    """Everything between header and footer; it says how many cards there are by its class."""

    def __init__(self) -> None:
        super().__init__(id="monitor-body")
        self._told: tuple[Row, int] = ([], -HOST_NS)
        self._listed: list[object] = []
        self._room = 0  # lines for processes: it grows with them, so that nothing jumps about

    def compose(self) -> ComposeResult:
        """Host, cards, one card at large, processes."""
        yield HostLine()
        yield HostChart()
        yield RowTable("Cards", "no cards", id="cards")
        yield CardGrid()
        with Horizontal(id="card"):
            with Vertical(id="card-curves"):
                yield CardChart()
                yield ActivityChart()
            yield CardFigures()
        yield RowTable("Processes", "no process holds memory on a card", id="processes")
        yield FilterInput(id="process-filter")

    def show(self, shown: MonitorSnapshot, sight: Sight) -> None:
        """Bring every panel up to date."""
        view = shown.view
        states = cards_in_sight(view, sight.window_s)
        cards = [state.card for state in states]
        self._show_host(view, _note(shown, sight))
        if not cards:
            self.query_one(HostChart).show(view, sight.window_s)
        elif len(cards) > 1 and sight.grid:
            self.query_one(CardGrid).show(states)
        else:
            self._show_one(states, sight.index)
        free = self.size.height - (3 if self._tall else 1)
        if len(cards) > 1:
            listing = self.query_one("#cards", RowTable)
            listing.show(CARD_COLUMNS, card_rows(cards))
            lines = min(len(cards) + 2, MOST_CARD_LINES[self._tall])
            listing.styles.height = lines
            free -= 0 if sight.grid else lines
        self._show_processes(cards, free)

    @property
    def _tall(self) -> bool:
        return self.screen.has_class("-tall")

    def _show_host(self, view: RunView, note: Row) -> None:
        """The host's line, once a second unless what stands before it changed."""
        newest = 0 if view.last_sample is None else view.last_sample.t
        if note != self._told[0] or newest - self._told[1] >= HOST_NS:
            self._told = (note, newest)
            self.query_one(HostLine).show(view, note)

    def _show_processes(self, cards: list[CardSample], free: int) -> None:
        """The processes, in what the card at large leaves of the free lines."""
        listed: list[object] = [card.processes for card in cards]
        table = self.query_one("#processes", RowTable)
        table.empty = why_empty(cards)
        least, most = PROCESSES[self._tall]
        self._room = max(self._room, sum(len(card.processes or ()) for card in cards) + 2)
        most = min(max(most, free // 3), max(least, free - CARD_LINES[self._tall]))
        lines = min(most, max(least, self._room))
        table.styles.height = lines
        squeezed = len(cards) > 1 and free - lines < CARD_LINES[self._tall]
        self.query_one(ActivityChart).set_class(squeezed, "-squeezed")
        if listed != self._listed or not table.columns:
            self._listed = listed
            table.show(PROCESS_COLUMNS, process_rows(cards))

    def _show_one(self, states: list[CardInSight], index: int | None) -> None:
        state = next((each for each in states if each.card.index == index), states[0])
        self.query_one(CardChart).show(state)
        self.query_one(ActivityChart).show(state)
        self.query_one(CardFigures).show(state)


def cards_in_sight(view: RunView, window_s: float) -> list[CardInSight]:
    """Every card over the stretch of time that is shown."""
    newest = 0 if view.last_sample is None else view.last_sample.t
    window = Window.up_to(newest, window_s)
    return [
        CardInSight(history, window)
        for _, history in sorted(view.cards.items())
        if history.last is not None
    ]


def _note(shown: MonitorSnapshot, sight: Sight) -> Row:
    """What stands before the host's figures."""
    if shown.error is not None:
        return [(clean(shown.error, 200), "bad"), ("  ", "")]
    sample = shown.view.last_sample
    row: Row = [(f"last {clock(sight.window_s)}  ", "muted")]
    if sight.paused:
        row = [("paused  ", "warn")]
    if shown.recording:
        row.insert(0, (f"{clean(shown.recording, 120)}  ", "warn"))
    if sample is not None and sample.cards and sample.cards_reason:
        row.append((f"{clean(sample.cards_reason, 120)}  ", "warn"))
    return row
