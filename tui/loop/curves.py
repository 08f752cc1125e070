"""The devices and the logged values over the time in sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprof.core.events.matching import match
from llmprof.core.state.histories import CardHistoryView, SeriesView
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.envelope import as_columns
from llmprof.tui.chart.plot import Line, Plot, render_plot
from llmprof.tui.chart.scale import Scale
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import memory_text, percent_text
from llmprof.tui.loop.parts_chart import LOOP_GUTTER, LoopSight
from llmprof.tui.loop.window import Span, limits, value_points

LABELS = 15  # columns of names and figures at the ends of lines
LEAST_FOR_LABELS = 50


class LoopDevice(Canvas):
    """The rank's card: utilisation, memory and power in percent; the host where it has none."""

    DEFAULT_CSS = """
    LoopDevice { width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="loop-device")
        self._sight: LoopSight | None = None
        self._view = RunView()

    def show(self, sight: LoopSight | None, view: RunView) -> None:
        """Take what is in sight."""
        self._sight, self._view = sight, view
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot."""
        sight, view, look = self._sight, self._view, self.look
        if sight is None or view.last_sample is None:
            return [
                heading(look, width, "Device", "%"),
                [("no reading of the device yet", "muted")],
            ]
        span = sight.span(max(1, width))
        card = card_of(sight.loop, view)
        lines, note, right = _host(view, span) if card is None else _card(card, span)
        at_ends = width >= LEAST_FOR_LABELS or self.colourless
        row: Row = []
        for line in () if at_ends else lines:
            row += [(f"{look.on} ", line.role), (f"{line.label} ", "muted")]
        title = heading(look, width, note, "%", [*row, (right, "muted")])
        plot = Plot(tuple(map(_with_figure, lines)) if at_ends else tuple(lines),
                    (-span.seconds, 0.0), (0.0, 100.0), Scale("%", 1.0), gutter=4,
                    label_width=LABELS if at_ends else 0, time_axis=height > 6)  # fmt: skip
        return [title, *render_plot(plot, width, height - 1, look.chart)]


class LoopValues(Canvas):
    """What the training logs, by default the first value: mostly the loss."""

    DEFAULT_CSS = """
    LoopValues { width: 1fr; margin-left: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="loop-values")
        self._sight: LoopSight | None = None
        self.chosen = 0

    def show(self, sight: LoopSight | None) -> None:
        """Take what is in sight."""
        self._sight = sight
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading with the newest figure, and the plot; how to log where nothing was."""
        sight, look = self._sight, self.look
        names = () if sight is None else sight.loop.rows.values
        if sight is None or not names:
            said = "with llmprof.track, run.log(loss=loss)"
            return [heading(look, width, "Logged values"), [(said, "muted")]]
        name = names[self.chosen % len(names)]
        span = sight.span(max(1, width))
        xs, ys = value_points(sight.loop, name, span)
        title = look.text(clean(name, 30))
        if not ys:
            return [heading(look, width, title), [("none in this time", "muted")]]
        more = f"]: next of {len(names)}" if len(names) > 1 else ""
        row = heading(look, width, title, more, [(f"{ys[-1]:.5g}", "text")])
        line = Line("accent", "", xs, as_columns(ys))
        plot = Plot((line,), (-span.seconds, 0.0), limits(ys), Scale("", 1.0),
                    gutter=LOOP_GUTTER + 1, time_axis=height > 6)  # fmt: skip
        return [row, *render_plot(plot, width, height - 1, look.chart)]


def card_of(loop: LoopState, view: RunView) -> CardHistoryView | None:
    """The card that a rank trains on, among those that were sampled."""
    if loop.device is None:
        return None
    known = {card.last.index: card for card in view.cards.values() if card.last is not None}
    found = match(
        [card.last for card in known.values() if card.last is not None],
        loop.device.uuid,
        loop.device.pci_bus_id,
    )
    return None if found is None else known[found.index]


def _card(card: CardHistoryView, span: Span) -> tuple[list[Line], str, str]:
    series = card.series
    lines = []
    for role, label, name, full_name in (
        ("memory", "memory", "memory_used", "memory_total"),
        ("power", "power", "power", "power_limit"),
        ("utilization", "util", "utilization", None),
    ):
        full = 100.0 if full_name is None else _newest(series.get(full_name))
        if name in series and full:
            lines.append(_line(role, label, series[name], full, span))
    used = _newest(series.get("memory_used"))
    index = "" if card.last is None else f" {card.last.index}"
    return lines, f"GPU{index}", f"memory {memory_text(used)}"


def _host(view: RunView, span: Span) -> tuple[list[Line], str, str]:
    total = 0 if view.last_sample is None else view.last_sample.host.memory_total_bytes or 0
    lines = [_line("utilization", "CPU", view.host_cpu, 100.0, span)]
    if total:
        lines.insert(0, _line("memory", "memory", view.host_memory, total, span))
    return lines, "Host", f"memory {memory_text(view.host_memory.newest_known)}"


def _line(role: str, label: str, readings: SeriesView, full: float, span: Span) -> Line:
    times, values = readings.points(span.start_ns)
    xs = [(t - span.end_ns) / 1e9 for t in times]
    return Line(role, label, xs, as_columns([100 * value / full for value in values]))


def _with_figure(line: Line) -> Line:
    """The line with its newest figure beside its name."""
    newest = next((high for each in reversed(line.columns) if each for _, high in [each]), None)
    return replace(line, label=f"{line.label:<7} {percent_text(newest, 0):>5}")


def _newest(series: SeriesView | None) -> float | None:
    return None if series is None else series.newest_known
