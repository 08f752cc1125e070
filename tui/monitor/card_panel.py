"""One card at large: its curves and its activity counters."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.events import CardSample, throttle
from llmprof.core.monitor import amounts, words
from llmprof.core.state.histories import CardHistoryView, SeriesView
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.envelope import as_columns
from llmprof.tui.chart.plot import Line, Plot, render_plot
from llmprof.tui.chart.scale import Scale
from llmprof.tui.kit.canvas import Canvas, cut_words, heading, row_length
from llmprof.tui.kit.look import Look

VENDOR = "NVIDIA "  # goes first from a name that finds no room
MONITOR_GUTTER = 6
MONITOR_LABELS = 15
LABELLED = 60  # columns from which lines are labelled at their ends
WINDOW_STEPS = 60  # a window moves on, and its curves are drawn anew, so many times in its length
PATIENCE_NS = 10_000_000_000  # the first figures of the activity counters come in two seconds
PERCENT_SCALE = Scale("%", 1.0, on_ticks=True)
# (role, label, metric, metric that is 100 %)
LOAD = (
    ("memory", "memory", "memory_used", "memory_total"),
    ("power", "power", "power", "power_limit"),
    ("utilization", "util", "utilization", None),
)
ACTIVITY = (
    ("optimizer", "DRAM", "dram_activity", None),
    ("backward", "tensor", "tensor_activity", None),
    ("forward", "SM", "sm_activity", None),
)
CurveSource = tuple[str, str, str, str | None]


@dataclass(frozen=True)
class Window:
    """A stretch of time up to about now."""

    end_ns: int
    seconds: float

    @classmethod
    def up_to(cls, newest_ns: int, seconds: float) -> Window:
        """The window that holds the newest reading; it moves in steps."""
        step = max(1, int(seconds * 1e9 / WINDOW_STEPS))
        return cls(-(-newest_ns // step) * step, seconds)


@dataclass(frozen=True)
class CardInSight:
    """A card, and the stretch of time that is shown."""

    history: CardHistoryView
    window: Window

    @property
    def card(self) -> CardSample:
        """Its newest known state."""
        return self.history.last or CardSample(index=0)

    @property
    def picture(self) -> tuple[object, ...]:
        """What the curves and their headings depend on, readings within the window aside."""
        activity = self.card.metrics.get("sm_activity")
        known = activity is not None and activity.value is not None
        card = self.card
        return card.index, card.name, card.state, card.throttle, known, self.window


def percent_line(role: str, label: str, readings: SeriesView, full: float, window: Window) -> Line:
    """Readings in percent of `full` as a line, x in seconds before the end; unknowns break it."""
    times, values = readings.points(window.end_ns - int(window.seconds * 1e9))
    xs = [(t - window.end_ns) / 1e9 for t in times]
    columns = as_columns([100 * value / full for value in values])
    newest = next((column for column in reversed(columns) if column is not None), None)
    shown = label if newest is None else f"{label} {amounts.text(newest[1], '%')}"
    return Line(role, shown, xs, columns, name=label)


def card_lines(state: CardInSight, sources: Sequence[CurveSource]) -> list[Line]:
    """The lines of a card's metrics, without those that the card or its limit does not tell."""
    series = state.history.series
    lines = []
    for role, label, name, full_name in sources:
        readings = series.get(name)
        full = 100.0
        if full_name is not None:
            limit = series.get(full_name)
            full = 0.0 if limit is None else limit.newest_known or 0.0
        if readings is not None and full:
            lines.append(percent_line(role, label, readings, full, state.window))
    return lines


def labels_at_ends(canvas: Canvas, width: int) -> bool:
    """Whether lines are named at their ends: where there is room, or no colour to name them by."""
    return width >= LABELLED or canvas.colourless


def legend(canvas: Canvas, lines: Sequence[Line], width: int, *, room: int) -> Row:
    """Which colour is what, where there is no room for labels beside the lines.

    The newest figures stand there too where they fit into the room.
    """
    if labels_at_ends(canvas, width):
        return []
    look = canvas.look
    rows: list[Row] = [[], []]
    for line in reversed(lines):
        for row, said in zip(rows, (line.label, line.name), strict=True):
            row += [(f" {look.on} ", line.role), (look.text(said), "muted")]
    return rows[0] if row_length(rows[0]) <= room else rows[1]


def percent_rows(canvas: Canvas, lines: Sequence[Line], window_s: float, size: tuple[int, int],
                 *, axis: bool = True) -> list[Row]:  # fmt: skip
    """Lines in percent on an axis of seconds before now."""
    width, height = size
    plot = Plot(
        tuple(lines),
        (-window_s, 0.0),
        (0.0, 100.0),
        PERCENT_SCALE,
        gutter=MONITOR_GUTTER,
        label_width=MONITOR_LABELS if labels_at_ends(canvas, width) else 0,
        time_axis=axis and height > 4,
    )
    return render_plot(plot, width, height, canvas.look.chart)


class CardChart(Canvas):
    """Utilisation, memory and power of the card in sight, in percent."""

    DEFAULT_CSS = """
    CardChart { height: 1fr; min-height: 4; }
    """

    def __init__(self) -> None:
        super().__init__(id="card-chart")
        self._state: CardInSight | None = None

    def show(self, state: CardInSight | None) -> None:
        """Take a card; curves are drawn anew only when their window moves on."""
        before, self._state = self._state, state
        if before is None or state is None or before.picture != state.picture:
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading with name and state, then the plot."""
        state, look = self._state, self.look
        if state is None:
            return [heading(look, width, "GPU", "waiting for the first sample")]
        card = state.card
        lines = card_lines(state, LOAD)
        number, name = f"GPU {card.index}", look.text(clean(card.name, 60))
        states = _state_row(card)
        free = width - len(number) - row_length(states) - 5
        right = [*states, *legend(self, lines, width, room=free - len(name))]
        note = name if len(name) <= free + row_length(states) - row_length(right) else ""
        title = heading(look, width, number, note, right)
        return [title, *percent_rows(self, lines, state.window.seconds, (width, height - 1))]


def why_no_activity(state: CardInSight) -> str | None:
    """Why there are no activity figures; None where there are, or may soon be."""
    metric = state.card.metrics.get("sm_activity")
    if metric is not None and metric.value is None:
        return metric.reason or "unknown"
    waited = state.history.newest_ns - state.history.first_ns
    return "the counters were not read" if metric is None and waited > PATIENCE_NS else None


class ActivityChart(Canvas):
    """SM, tensor-core and DRAM activity, or why there is none."""

    DEFAULT_CSS = """
    ActivityChart { height: 8; }
    """

    def __init__(self) -> None:
        super().__init__(id="activity-chart")
        self._state: CardInSight | None = None

    def show(self, state: CardInSight | None) -> None:
        """Take a card; curves are drawn anew only when their window moves on."""
        before, self._state = self._state, state
        self.set_class(state is not None and why_no_activity(state) is not None, "-unknown")
        if before is None or state is None or before.picture != state.picture:
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot."""
        state, look = self._state, self.look
        reason = None if state is None else why_no_activity(state)
        if reason is not None:
            said = textwrap.wrap(look.text(clean(reason, 300)), max(10, width))
            title = heading(look, width, "Activity", "share of cycles")
            return [title, *([(line, "muted")] for line in said)]
        if state is None or "sm_activity" not in state.history.series:
            title = heading(look, width, "Activity", "share of cycles")
            return [title, [("waiting for two readings of the counters", "muted")]]
        lines, size = card_lines(state, ACTIVITY), (width, height - 1)
        title = heading(
            look, width, "Activity", "of cycles", legend(self, lines, width, room=width - 22)
        )
        return [title, *percent_rows(self, lines, state.window.seconds, size, axis=False)]


def fitting_name(card: CardSample, room: int, look: Look) -> str:
    """A card's name where it fits, else without the vendor, else as many words as fit."""
    name = look.text(clean(card.name, 60))
    return name if len(name) <= room else cut_words(name.removeprefix(VENDOR), max(0, room), "")


def _state_row(card: CardSample) -> Row:
    if card.state != "ok":
        return [(words.state(card), "bad")]
    harmful = [name for name in card.throttle if throttle.is_harmful(name)]
    return [(", ".join(harmful), "warn")] if harmful else []
