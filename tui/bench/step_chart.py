"""Step time by phase over time."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core import events as ev
from llmprof.core.spec.case import PHASES
from llmprof.core.system.text import clean
from llmprof.tui.bench.chart_state import BENCH_GUTTER, BENCH_LABELS, SERIES_NAMES, ChartState
from llmprof.tui.bench.disturbed import chart_positions
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.plot import Line, MarkedPoint, Plot, draw_plot
from llmprof.tui.chart.scale import Scale, StickyLimit, scale_for
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import memory_text
from llmprof.tui.session.curves import outliers

UNTIMED = {  # by what measures a case
    "memory": "this case records memory and times no step: press 4 for the Memory view",
    "calibrate": "this case measures ceilings and times no step",
}
ALIVE = "enter on its row below: what was alive, and what would have made it fit"
LEAST_SHARE = 0.02  # of the step: a shorter phase would only draw the floor


class StepChart(Canvas):
    """Device time of each phase over time; warm-up shaded, outliers marked."""

    DEFAULT_CSS = """
    StepChart { height: 1fr; min-height: 5; }
    """

    def __init__(self) -> None:
        super().__init__(id="step-chart")
        self._state: ChartState | None = None
        self._is_loop = False
        self._limit = StickyLimit()

    def show(self, state: ChartState | None, *, is_loop: bool = False) -> None:
        """Take what to draw; of a training loop nothing is drawn here."""
        self._is_loop = is_loop
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
            shade_note="warm-up at the left",
            marks=self._marks(state),
            gutter=BENCH_GUTTER,
            label_width=BENCH_LABELS if width >= 70 else 0,
            time_axis=self.screen.has_class("-short"),
        )
        look = self.look
        note = f"{look.text(scale.unit)} by phase"
        if len(state.view.cases) > 1:  # the status line may name another one, which is running
            note += f", {look.text(clean(state.case.case.label, 120))}"
        highest = state.curves.phases["total"].highest or 0.0
        if highest > limit and width >= 70:
            note += f", up to {scale.tick(round(highest, 1))} above the scale"
        right: Row = self._legend(state) if width < 70 else [(state.window, "muted")]
        if state.aside and width >= 70:
            right = [("f", "key"), (" shows the running case  ", "muted"), *right]
        if chart_positions(state.disturbed) and width >= 70:
            right = [(f"{look.chart.mark} ", "warn"), ("throttled or shared  ", "muted"), *right]
        drawn = draw_plot(plot, width, height - 1, look.chart)
        note = ", ".join(filter(None, (note, drawn.unsaid)))
        return [heading(look, width, "Step time", note, right), *drawn.rows]

    def _waiting(self, width: int) -> list[Row]:
        look, state = self.look, self._state
        if self._is_loop:
            said = "the Loop view (6) shows the parts of its steps"
            return [heading(look, width, "Step time"), [(said, "text")]]
        if state is not None and (state.case.done or state.case.case.probe in UNTIMED):
            said = UNTIMED.get(state.case.case.probe, "this case ended before its first step")
            return [heading(look, width, "Step time", "none"), [(said, "text")]]
        return [
            heading(look, width, "Step time", "ms by phase"),
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
        asked = f", asked for {memory_text(failure.bytes_asked)}" if failure.bytes_asked else ""
        rows.append([(look.text(f"{failure.kind}{where}{asked}"), "bad")])
        lines = textwrap.wrap(clean(failure.message, 600), max(10, width))
        rows += [[(look.text(line), "text")] for line in lines]
        if failure.kind == "oom":
            rows += [[(ALIVE, "muted")]]
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
            running, total = state.curves.means[name], state.curves.total
            if not columns or running.mean < LEAST_SHARE * total.mean:
                continue
            value = running.mean if running.n else envelope.last
            label = f"{SERIES_NAMES.get(name, name):<9} {scale.figure(value):>7}"
            lines.append(Line(name, label, xs, columns, name=SERIES_NAMES.get(name, name)))
        return tuple(lines)

    def _legend(self, state: ChartState) -> Row:
        row: Row = []
        for name in state.case.case.phases:
            if name in ("loss", "zero_grad"):
                continue
            row += [(f"{self.look.on} ", name), (SERIES_NAMES.get(name, name), "muted"), (" ", "")]
        return row[:-1]

    def _marks(self, state: ChartState) -> tuple[MarkedPoint, ...]:
        marks = []
        for at in outliers(state.case):
            row = state.case.measured.row(at)
            x = state.curves.seconds(row.start_ns) + row.wall_ms / 2000
            marks.append(MarkedPoint(x, row.total_ms))
        for at in chart_positions(state.disturbed):
            marks.append(
                MarkedPoint(state.curves.seconds(state.case.measured.row(at).start_ns), 0.0, "warn")
            )
        return tuple(marks)
