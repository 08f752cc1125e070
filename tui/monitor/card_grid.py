"""All cards at once: a cell each, with its figures and a curve."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events import throttle
from llmprof.core.monitor import words
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.plot import Plot, render_plot
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.monitor.card_panel import (
    LOAD,
    MONITOR_GUTTER,
    PERCENT_SCALE,
    CardInSight,
    card_lines,
    fitting_name,
)

CELL = 38  # columns a cell needs
LEAST = 3  # lines


class CardGrid(Canvas):
    """Cells as wide as they can be; each has name, two lines of figures and a curve."""

    DEFAULT_CSS = """
    CardGrid { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="card-grid")
        self._cards: tuple[CardInSight, ...] = ()

    def show(self, cards: Sequence[CardInSight]) -> None:
        """Take all cards."""
        self._cards = tuple(cards)
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Rows of cells; cards that do not fit are counted in the last line."""
        cards = self._cards
        if not cards:
            return [[("waiting for the first sample", "muted")]]
        across = max(1, min(len(cards), (width + 2) // (CELL + 2)))
        lines = max(LEAST, height // -(-len(cards) // across))
        fitting = max(1, height // lines) * across
        cell = (width + 2) // across - 2
        rows: list[Row] = []
        for first in range(0, min(len(cards), fitting), across):
            cells = [self._cell(card, cell, lines) for card in cards[first : first + across]]
            rows += [_beside([c[at] for c in cells], cell) for at in range(lines)]
        if fitting < len(cards):
            rows[-1:] = [[(f"and {len(cards) - fitting} more: g shows one at a time", "muted")]]
        return rows

    def _cell(self, state: CardInSight, width: int, height: int) -> list[Row]:
        card, look = state.card, self.look
        harmful = [name for name in card.throttle if throttle.is_harmful(name)]
        warning: Row = [(words.state(card), "bad")] if card.state != "ok" else []
        warning = warning or ([(harmful[0], "warn")] if harmful else [])
        number = f"GPU {card.index}"
        name = fitting_name(card, width - len(number) - row_length(warning) - 4, look)
        title = heading(look, width, number, name, warning)
        figures: list[list[tuple[str, str]]] = [  # in the colours of their curves
            [
                (words.amount("utilization", card), "utilization"),
                (words.pair("memory_used", "memory_total", card), "memory"),
            ],
            [
                (words.pair("power", "power_limit", card), "power"),
                (words.amount("temperature", card), "text"),
                (words.pair("sm_clock", "sm_clock_max", card), "text"),
            ],
        ]
        rows: list[Row] = [title, *(self._line(each, width) for each in figures)]
        plot = Plot(
            tuple(card_lines(state, LOAD)),
            (-state.window.seconds, 0.0),
            (0.0, 100.0),
            PERCENT_SCALE,
            gutter=MONITOR_GUTTER,
            time_axis=False,
        )
        curve = render_plot(plot, width, height - 3, look.chart) if height > 3 else []
        return [*rows, *curve]

    def _line(self, figures: list[tuple[str, str]], width: int) -> Row:
        row: Row = []
        for value, role in figures:
            text = self.look.text(value)
            if row_length(row) + len(text) <= width:
                row += [(text, role), ("  ", "")]
        return row[:-1]


def _beside(cells: list[Row], width: int) -> Row:
    out: Row = []
    for at, cell in enumerate(cells):
        pad = width - row_length(cell) + (2 if at + 1 < len(cells) else 0)
        out += [*cell, (" " * max(0, pad), "")]
    return out
