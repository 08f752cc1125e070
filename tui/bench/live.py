"""The live panels: what runs, its curves, its figures, results and steps."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clock
from llmprof.tui.bench.case_figures import NowPanel
from llmprof.tui.bench.chart_state import CASE_WINDOWS_S, ChartState, time_window
from llmprof.tui.bench.coverage_grid import CoverageGrid
from llmprof.tui.bench.device_chart import DeviceChart
from llmprof.tui.bench.device_curves import DeviceCurves
from llmprof.tui.bench.disturbed import Disturbed, marked_steps
from llmprof.tui.bench.mean_chart import MeanChart
from llmprof.tui.bench.next_steps import NextSteps
from llmprof.tui.bench.results_table import ResultRows
from llmprof.tui.bench.status import StatusLines
from llmprof.tui.bench.step_chart import StepChart
from llmprof.tui.bench.step_log import StepLog
from llmprof.tui.kit.look import Look
from llmprof.tui.kit.table import RowTable
from llmprof.tui.session.curves import CaseCurves

HIGH = 28  # lines of panels beyond which further ones are for results
LEAST_RESULTS = 9


class LivePanels(Vertical):
    """Panels of one run. Their own state: what was taken of the case in sight for its curves."""

    DEFAULT_CSS = Path(__file__).with_name("live.tcss").read_text("utf-8")
    SCOPED_CSS = False  # its view's classes decide

    class Ready(Message):
        """The panels are there and can be given a run."""

        def __init__(self, panels: LivePanels) -> None:
            super().__init__()
            self.panels = panels

    def __init__(self, look: Look) -> None:
        super().__init__(id="live")
        self.ready = False  # whether the panels are there
        self._look = look
        self._curves: CaseCurves | None = None
        self._device: DeviceCurves | None = None
        self._rows = ResultRows(look, {})
        self._disturbed = Disturbed()
        self._bottom: int | None = None  # lines of results; None: as the styles have it

    def compose(self) -> ComposeResult:
        """Status, charts or the coverage grid, figures, results, the step log."""
        yield StatusLines()
        with Horizontal(id="charts"):
            with Vertical(id="curves"):
                yield StepChart()
                yield DeviceChart()
            with Vertical(id="figures"):
                yield NowPanel()
                yield MeanChart()
        yield CoverageGrid()
        with Horizontal(id="bottom"):
            table = RowTable(
                "Results",
                "one row a case: status, step time, trend, memory and a verdict",
                id="results",
            )
            table.spells_out = True
            yield table
            yield StepLog()

    def on_mount(self) -> None:
        """The panels are there from now on."""
        self.ready = True
        self.post_message(self.Ready(self))

    @property
    def table(self) -> RowTable:
        """The results table."""
        return self.query_one(RowTable)

    def forget(self) -> None:
        """Another run is shown from now on."""
        self._curves = self._device = None
        self._rows = ResultRows(self._look, {})
        self._disturbed = Disturbed()
        self.table.order, self.table.filter = None, ""

    def keep_time(self, now_ns: int | None) -> None:
        """Let the elapsed time go on."""
        self.query_one(StatusLines).keep_time(now_ns)

    def show_missed(self, steps: int | None) -> None:
        """Say that the picture is held, and how many steps have come since; None: it is not."""
        self.query_one(StatusLines).show_missed(steps)

    def show(
        self,
        view: RunView | None,
        case: CaseState | None,
        *,
        alive: bool,
        now_ns: int | None,
        note: str,
        zoom: int,
        other: str,
        following: NextSteps | None,
        verdict: str,
    ) -> None:
        """Bring every panel up to date.

        note is a problem that replaces what is being done, other a run that is going unwatched,
        following what is suggested after this run, verdict what it came to.
        """
        lines = self.query_one(StatusLines)
        lines.show(view, alive=alive, now_ns=now_ns, note=note, other=other, following=following,
                   verdict=verdict)  # fmt: skip
        state = self._chart_state(view, case, alive, zoom) if view and case else None
        self.query_one(StepChart).show(state, is_loop=view is not None and bool(view.loops))
        self.query_one(DeviceChart).show(state)
        self.query_one(MeanChart).show(state)
        self.query_one(NowPanel).show(state)
        self.query_one(CoverageGrid).show(view, case, alive=alive)
        self.query_one(StepLog).show(case, marked_steps(state.disturbed if state else None))
        table = self.table
        if view is None:
            table.show((), ())
        else:
            table.note = self._rows.common(view)
            rows = self._rows.rows(view, self._curves, alive=alive)
            table.show(self._rows.columns(view), rows)
            table.put_cursor(str(case.index) if case else None)
        self._make_room(0 if view is None else len(view.cases))

    def _make_room(self, rows: int) -> None:
        """In a high window rows of results come before anything is drawn larger."""
        spare = self.size.height - HIGH
        bottom = self.query_one("#bottom")
        wanted = min(LEAST_RESULTS + spare, max(LEAST_RESULTS, rows + 2)) if spare > 0 else None
        if wanted != self._bottom:
            self._bottom = wanted
            bottom.styles.height = wanted

    def _chart_state(self, view: RunView, case: CaseState, alive: bool, zoom: int) -> ChartState:
        curves = self._curves
        if curves is None or curves.key != (case.index, case.attempt):
            curves = self._curves = CaseCurves(case)
            self._device = None
        curves.update(case)
        if curves.origin_ns is not None:
            if self._device is None:
                self._device = DeviceCurves(curves.origin_ns)
            self._device.update(view, case.ended_ns)
        window = CASE_WINDOWS_S[zoom]
        name = "whole case" if window is None else f"last {clock(window)}"
        span = time_window(curves, case.done or not alive, window)
        disturbed = self._disturbed.update(view, case)
        current = view.current
        aside = alive and current is not None and current.index != case.index
        return ChartState(view, case, curves, self._device, span, name, disturbed, aside)
