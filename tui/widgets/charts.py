"""The live charts: step time by phase, the device on the same time axis, the narrowing mean."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmprof.core import events as ev
from llmprof.core.results import CaseState, RunView
from llmprof.core.spec import PHASES
from llmprof.core.text import clean
from llmprof.tui.chart.plot import Line, Mark, Plot, Row, render
from llmprof.tui.chart.scale import (
    Scale,
    StickyLimit,
    nice_ceiling,
    scale_for,
    time_step,
)
from llmprof.tui.curves import CaseCurves, DeviceCurves, outliers, run_card
from llmprof.tui.disturbed import chart_positions, in_words
from llmprof.tui.format import memory
from llmprof.tui.widgets.canvas import Canvas, heading

if TYPE_CHECKING:
    from llmprof.core.joined import CaseDevice

WINDOWS: tuple[float | None, ...] = (None, 300.0, 60.0, 15.0)  # seconds; None: the whole case
GUTTER = 6
LABELS = 19
LEAST_SHARE = 0.02  # of the step: a shorter phase would only draw the floor
NAMES = {"zero_grad": "zero grad", "total": "step"}


@dataclass(frozen=True)
class ChartState:
    """What the charts show of a case: data, time window, window's name."""

    view: RunView
    case: CaseState
    curves: CaseCurves
    device: DeviceCurves | None
    x: tuple[float, float]
    window: str
    disturbed: CaseDevice | None = None


def time_window(curves: CaseCurves, done: bool, window: float | None) -> tuple[float, float]:
    """Start and end of the time axis; both move in steps, so that little is drawn anew."""
    last = max(curves.last, 1e-3)
    if window is not None and last > window:
        step = window / 60
        end = -(-last // step) * step
        return end - window, end
    if window is not None:
        return 0.0, window
    if done:
        return 0.0, last * 1.005
    return 0.0, grown(last)


def grown(last: float) -> float:
    """A round span with room for what comes."""
    step = time_step(last * 1.15, 4)
    return -(-(last * 1.05) // step) * step


class StepChart(Canvas):
    """Device time of each phase over time; warm-up shaded, outliers marked."""

    DEFAULT_CSS = """
    StepChart { height: 1fr; min-height: 5; }
    """

    def __init__(self) -> None:
        super().__init__(id="step-chart")
        self._state: ChartState | None = None
        self._limit = StickyLimit()

    def show(self, state: ChartState | None) -> None:
        """Take what to draw."""
        if state is None or self._state is None or state.curves is not self._state.curves:
            self._limit = StickyLimit()
        self._state = state
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot."""
        state = self._state
        if state is not None and state.case.failure and state.curves.origin_ns is None:
            return self._failed(state.case.failure, width)
        if state is None or state.curves.origin_ns is None:
            return self._waiting(width)
        limit = self._limit.update(state.curves.scale_top())
        scale = scale_for("ms", limit)
        plot = Plot(
            self._lines(state, scale),
            state.x,
            (0.0, limit),
            scale,
            shades=((-1.0, state.curves.warmup_end),) if state.curves.warmup_end else (),
            shade_label="warm-up",
            marks=self._marks(state),
            gutter=GUTTER,
            label_width=LABELS if width >= 70 else 0,
            time_axis=self.screen.has_class("-short"),
        )
        look = self.look
        note = f"by phase, {look.text(scale.unit)}"
        highest = state.curves.phases["total"].highest or 0.0
        if highest > limit and width >= 70:
            note += f", up to {scale.tick(round(highest, 1))} beyond the scale"
        right: Row = self._legend(state) if width < 70 else [(state.window, "muted")]
        if chart_positions(state.disturbed) and width >= 70:
            right = [(f"{look.chart.mark} ", "warn"), ("throttled or shared  ", "muted"), *right]
        title = heading(look, width, "Step time", note, right)
        return [title, *render(plot, width, height - 1, look.chart)]

    def _waiting(self, width: int) -> list[Row]:
        look = self.look
        return [
            heading(look, width, "Step time", "by phase"),
            [(look.text("waiting for the first step"), "text")],
            [],
            [("each step's forward, loss, backward and optimizer", "muted")],
            [("time, as it is measured: warm-up shaded, outliers", "muted")],
            [("marked, on one time axis with the device below", "muted")],
        ]  # fmt: skip

    def _failed(self, failure: ev.Failure, width: int) -> list[Row]:
        """Why there is nothing to draw, and what to do instead."""
        look = self.look
        rows: list[Row] = [heading(look, width, "Step time", "none: this case failed")]
        where = f" in {failure.phase}" if failure.phase else ""
        asked = f", asked for {memory(failure.bytes_asked)}" if failure.bytes_asked else ""
        rows.append([(look.text(f"{failure.kind}{where}{asked}"), "bad")])
        lines = textwrap.wrap(clean(failure.message, 600), max(10, width))
        rows += [[(look.text(line), "text")] for line in lines]
        if failure.instead:
            rows += [[("instead: ", "muted"), (look.text(clean(failure.instead, 300)), "accent")]]
        return rows

    def _lines(self, state: ChartState, scale: Scale) -> tuple[Line, ...]:
        lines = []
        names = [name for name in ("total", *reversed(PHASES)) if name in state.curves.phases]
        if len(state.case.case.phases) == 1:
            names.remove("total")
        for name in names:
            envelope = state.curves.phases[name]
            xs, columns = envelope.points()
            running, total = state.curves.running[name], state.curves.running["total"]
            if not columns or running.mean < LEAST_SHARE * total.mean:
                continue
            value = running.mean if running.n else envelope.last
            label = f"{NAMES.get(name, name):<9} {scale.figure(value):>7}"
            lines.append(Line(name, label, xs, columns))
        return tuple(lines)

    def _legend(self, state: ChartState) -> Row:
        row: Row = []
        for name in state.case.case.phases:
            if name in ("loss", "zero_grad"):
                continue
            row += [(f"{self.look.on} ", name), (NAMES.get(name, name), "muted"), (" ", "")]
        return row[:-1]

    def _marks(self, state: ChartState) -> tuple[Mark, ...]:
        marks = []
        for at in outliers(state.case):
            row = state.case.measured.row(at)
            x = state.curves.seconds(row.start_ns) + row.wall_ms / 2000
            marks.append(Mark(x, row.total_ms))
        for at in chart_positions(state.disturbed):
            marks.append(
                Mark(state.curves.seconds(state.case.measured.row(at).start_ns), 0.0, "warn")
            )
        return tuple(marks)


class DeviceChart(Canvas):
    """Utilisation, memory and power in percent, on the step chart's time axis."""

    DEFAULT_CSS = """
    DeviceChart { height: 8; }
    """

    def __init__(self) -> None:
        super().__init__(id="device-chart")
        self._state: ChartState | None = None

    def show(self, state: ChartState | None) -> None:
        """Take what to draw."""
        self._state = state
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot; says what will come while there is no sample."""
        state, look = self._state, self.look
        if state is None or state.device is None or not state.device.envelopes:
            return [
                heading(look, width, "Device", "utilisation, memory, power"),
                [("the card's curves, or the host's where there is no card", "muted")],
            ]  # fmt: skip
        lines = []
        for role in ("memory", "power", "utilization"):
            envelope = state.device.envelopes.get(role)
            if envelope is not None:
                xs, columns = envelope.points()
                label = f"{state.device.labels[role]:<9} {envelope.last or 0:>5.0f} %"
                lines.append(Line(role, label, xs, columns))
        plot = Plot(
            tuple(lines),
            state.x,
            (0.0, 100.0),
            Scale("%", 1.0),
            gutter=GUTTER,
            label_width=LABELS if width >= 70 else 0,
            time_axis=not self.screen.has_class("-short"),
        )
        missing = missing_reasons(state.view) if height >= 8 else ""
        words = look.text(clean(in_words(state.disturbed), 80))
        right = device_values(state.view)
        if words and width >= 100:
            right = [(f"{words}  ", "warn"), *right]
        elif words:
            right = [(words, "warn")]
        title = heading(look, width, "Device", "%", right)
        rows = render(plot, width, height - 1 - bool(missing), look.chart)
        return [title, *rows, *([[(look.text(missing), "muted")]] if missing else [])]


class MeanChart(Canvas):
    """The running mean of the step time with its 95 % interval, narrowing as steps come."""

    DEFAULT_CSS = """
    MeanChart { height: 1fr; min-height: 3; }
    """

    def __init__(self) -> None:
        super().__init__(id="mean-chart")
        self._curves: CaseCurves | None = None

    def show(self, state: ChartState | None) -> None:
        """Take what to draw."""
        self._curves = state.curves if state else None
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot, scaled to the interval after the first few samples."""
        look, curves = self.look, self._curves
        title = heading(look, width, "Running mean", look.text("± 95 %"))
        if curves is None or curves.mean.count < 2:
            return [title, [("narrows as steps are measured", "muted")]]
        lines = []
        for role, envelope in (("band", curves.low), ("band", curves.high), ("mean", curves.mean)):
            xs, columns = envelope.points()
            lines.append(Line(role, "", xs, columns))
        end = max(10.0, nice_ceiling(curves.running["total"].n * 1.02))
        limits = mean_limits(curves)
        plot = Plot(tuple(lines), (2.0, end), limits, Scale("ms", 1.0), gutter=7, time_axis=False)
        rows = render(plot, width, height - 1, look.chart)
        return [title, *rows]


def mean_limits(curves: CaseCurves) -> tuple[float, float]:
    """Limits of the running mean's axis: the interval's, without its wide first tenth."""
    xs, lows = curves.low.points()
    _, highs = curves.high.points()
    skip = min(len(xs) - 1, max(1, len(xs) // 10)) if len(xs) > 4 else 0
    low = min(column[0] for column in lows[skip:] if column)
    high = max(column[1] for column in highs[skip:] if column)
    span = max(high - low, 0.01 * abs(high), 1e-6)
    step = nice_ceiling(span / 2)
    return max(0.0, low // step * step), -(-high // step) * step or step


def missing_reasons(view: RunView) -> str:
    """Which of the curves' metrics the run's card does not give, and why; "" when all are there."""
    index = run_card(view)
    last = view.cards[index].last if index is not None and index in view.cards else None
    if last is None:
        return ""
    names = (("utilization", "utilisation"), ("memory_used", "memory"), ("power", "power"))
    said = [
        f"no {label}: {clean(metric.reason, 60)}"
        for name, label in names
        if (metric := last.metrics.get(name)) is not None and metric.value is None and metric.reason
    ]
    return "; ".join(said)


def device_values(view: RunView) -> Row:
    """The newest absolute figures of the run's card, or of the host."""
    index = run_card(view)
    sample = view.last_sample
    if sample is None:
        return []
    if index is None:
        used, total = sample.host.memory_used_bytes, sample.host.memory_total_bytes
        return [(f"{memory(used)} of {memory(total)}", "muted")]
    card = view.cards[index]

    def value(name: str) -> float | None:
        series = card.series.get(name)
        return None if series is None else series.last

    parts = [f"{memory(value('memory_used'))} of {memory(value('memory_total'))}"]
    for name, unit in (("power", "W"), ("temperature", "°C"), ("sm_clock", "MHz")):
        if (known := value(name)) is not None:
            parts.append(f"{known:.0f} {unit}")
    return [("  ".join(parts), "muted")]
