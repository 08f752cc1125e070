"""How well the step time is known by now."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.tui.bench.chart_state import ChartState
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.plot import Line, Plot, render_plot
from llmprof.tui.chart.scale import Scale
from llmprof.tui.chart.ticks import nice_ceiling
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.session.curves import CaseCurves

TITLE = "Mean ± 95 %"
GUTTER = 9


class MeanChart(Canvas):
    """The running mean of the step time with its 95 % interval, narrowing as steps come."""

    DEFAULT_CSS = """
    MeanChart { height: 1fr; min-height: 3; }
    """

    def __init__(self) -> None:
        super().__init__(id="mean-chart")
        self._curves: CaseCurves | None = None
        self._done = False

    def show(self, state: ChartState | None) -> None:
        """Take what to draw."""
        self._curves = state.curves if state else None
        self._done = state is not None and state.case.done
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading and plot, scaled to the interval after the first few samples."""
        look, curves = self.look, self._curves
        if curves is None or curves.mean.count < 2:
            said = "fewer than two steps are timed" if self._done else "narrows with every step"
            return [heading(look, width, TITLE), [(said, "muted")]]
        steps = f"steps 1 to {curves.total.n:,}"
        title = heading(look, width, TITLE, right=[(steps, "muted")])
        lines = []
        for role, letter, envelope in (
            ("band", ".", curves.low), ("band", ".", curves.high), ("mean", "o", curves.mean)
        ):  # fmt: skip
            xs, columns = envelope.points()
            lines.append(Line(role, "", xs, columns, letter=letter))
        last = float(curves.total.n)
        end = last if self._done else max(10.0, nice_ceiling(last * 1.02))
        limits = mean_limits(curves)
        scale = Scale("ms", 1.0, on_ticks=True)  # not from 0: every tick says what it is
        plot = Plot(tuple(lines), (2.0, end), limits, scale, gutter=GUTTER, time_axis=False)
        rows = render_plot(plot, width, height - 1, look.chart)
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
    bottom, top = max(0.0, low // step * step), -(-high // step) * step
    return (bottom, top) if top > bottom else (max(0.0, bottom - step), bottom + step)
