"""What the device does, on the step chart's time axis."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.figures.case_device import run_card
from llmprof.core.monitor import amounts
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean
from llmprof.tui.bench.chart_state import BENCH_GUTTER, BENCH_LABELS, ChartState
from llmprof.tui.bench.disturbed import in_words
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.plot import Line, Plot, draw_plot
from llmprof.tui.chart.scale import Scale
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import memory_text


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
                [("curves of the card, or else of the host", "muted")],
            ]  # fmt: skip
        lines = []
        for role in ("memory", "power", "utilization"):
            envelope = state.device.envelopes.get(role)
            if envelope is not None:
                xs, columns = envelope.points()
                known = envelope.last is not None and columns[-1] is not None
                value = f"{amounts.text(envelope.last if known else None, '%'):>7}"
                label = f"{state.device.labels[role]:<9} {value}"
                lines.append(Line(role, label, xs, columns, name=state.device.labels[role]))
        plot = Plot(
            tuple(lines),
            state.x,
            (0.0, 100.0),
            Scale("%", 1.0),
            gutter=BENCH_GUTTER,
            label_width=BENCH_LABELS if width >= 70 else 0,
            time_axis=not self.screen.has_class("-short"),
        )
        missing = missing_reasons(state.view) if height >= 8 else ""
        words = look.text(clean(in_words(state.disturbed), 80))
        right = device_values(state.view)
        if words and width >= 100:
            right = [(f"{words}  ", "warn"), *right]
        elif words:
            right = [(words, "warn")]
        drawn = draw_plot(plot, width, height - 1 - bool(missing), look.chart)
        note = ", ".join(filter(None, ("%", drawn.unsaid)))
        title = heading(look, width, "Device", note, right)
        return [title, *drawn.rows, *([[(look.text(missing), "muted")]] if missing else [])]


def missing_reasons(view: RunView) -> str:
    """Which of the curves' metrics the run's card does not give, and why; "" when all are there."""
    card = run_card(view)
    if card is None or card.last is None:
        return ""
    names = (("utilization", "utilisation"), ("memory_used", "memory"), ("power", "power"))
    known = [(label, card.last.metrics.get(name)) for name, label in names]
    said = [
        f"no {label}: {clean(metric.reason, 60)}"
        for label, metric in known
        if metric is not None and metric.value is None and metric.reason
    ]
    return "; ".join(said)


def device_values(view: RunView) -> Row:
    """The newest absolute figures of the run's card, or of the host."""
    card, sample = run_card(view), view.last_sample
    if sample is None:
        return []
    if card is None:
        used, total = sample.host.memory_used_bytes, sample.host.memory_total_bytes
        return [(f"{memory_text(used)} of {memory_text(total)}", "muted")]

    def value(name: str) -> float | None:
        series = card.series.get(name)
        return None if series is None else series.last

    parts = [f"{memory_text(value('memory_used'))} of {memory_text(value('memory_total'))}"]
    for name, unit in (("power", "W"), ("temperature", "°C"), ("sm_clock", "MHz")):
        if (known := value(name)) is not None:
            parts.append(f"{known:.0f} {unit}")
    return [("  ".join(parts), "muted")]
