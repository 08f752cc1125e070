"""The Bench view: set up an experiment, run it, watch every step arrive."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from llmprof.core.results import CaseState, RunView
from llmprof.tui.choices import command, command_line, remember
from llmprof.tui.curves import CaseCurves, DeviceCurves
from llmprof.tui.disturbed import Disturbed, marked_steps
from llmprof.tui.feed import Snapshot
from llmprof.tui.forecast import card_of
from llmprof.tui.screens.view import View
from llmprof.tui.widgets.charts import (
    WINDOWS,
    ChartState,
    DeviceChart,
    MeanChart,
    StepChart,
    time_window,
)
from llmprof.tui.widgets.coverage import CoverageGrid
from llmprof.tui.widgets.now import NowPanel
from llmprof.tui.widgets.results import ResultRows
from llmprof.tui.widgets.setup import SetupPane
from llmprof.tui.widgets.status import StatusLines
from llmprof.tui.widgets.steps import StepLog
from llmprof.tui.widgets.table import Table


class BenchView(View):
    """Set-up pane and live panels. Its own state: case in sight, time window, panes in sight."""

    VIEW = "bench"
    LABEL = "Bench"
    KEY = "1"
    AUTO_FOCUS = ""  # the shown pane says what has the keys
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r,f5", "run", "Run", id="bench.run", tooltip="measure what is ticked"),
        Binding("x", "stop", "Stop", id="bench.stop", tooltip="stop the run, keep its figures"),
        Binding("s", "setup", "Set-up", id="bench.setup", tooltip="show or hide the set-up pane"),
        Binding("space", "pause", "Pause", id="bench.pause",
                tooltip="hold the picture; the run goes on"),
        Binding("f", "follow", "Follow", show=False, id="bench.follow",
                tooltip="show the case that is running"),
        Binding("z", "zoom", "Zoom", show=False, id="bench.zoom",
                tooltip="time shown: the whole case, 5 minutes, 1 minute, 15 seconds"),
        Binding("l", "log", "Steps", show=False, id="bench.log",
                tooltip="results table or step log, where there is room for one"),
        Binding("g", "grid", "Coverage", show=False, id="bench.grid",
                tooltip="what became of every case, in a grid, in place of the charts"),
        Binding("c", "copy", "Copy command", show=False, id="bench.copy",
                tooltip="copy the equivalent command"),
        Binding("e", "export", "Export", id="bench.export",
                tooltip="write the results as Markdown, CSV or JSON"),
        Binding("escape", "back", "Back", show=False, id="bench.back",
                tooltip="from the set-up pane to the run"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.pinned: int | None = None  # case in sight; None follows the run
        self.zoom = 0
        self._run: str | None = None
        self._alive = False
        self._curves: CaseCurves | None = None
        self._device: DeviceCurves | None = None
        self._rows: ResultRows | None = None
        self._disturbed = Disturbed()

    def compose_body(self) -> ComposeResult:
        """Set-up pane on the left, live panels on the right; the first where nothing runs."""
        self.set_class(self.llmprof.session.run is None, "-setup")
        with Horizontal(id="bench-body"):
            yield SetupPane(self.llmprof.models, self.llmprof.choices)
            with Vertical(id="live"):
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
                    yield Table(
                        "Results",
                        "one row a case: status, step time, trend, memory and a verdict",
                        id="results",
                    )
                    yield StepLog()

    def on_mount(self) -> None:
        """The shown pane has the keys."""
        if self.has_class("-setup"):
            self.query_one(SetupPane).focus_first()
        else:
            self.query_one(Table).focus()

    def take(self, snapshot: Snapshot) -> None:
        """Bring every panel up to date."""
        app = self.llmprof
        watched = app.session.run.id if app.session.run else None
        if watched != self._run:
            self._forget(watched)
        view = snapshot.view if app.session.run else None
        if view is not None and (card := card_of(view.environment)) is not None:
            self.query_one(SetupPane).show_card(card)
        note = snapshot.error or app.session.problem
        self.query_one(StatusLines).show(view, alive=app.session.alive, note=note)
        case = self._case_in_sight(view) if view else None
        if app.session.alive != self._alive:
            self._alive = app.session.alive
            self.refresh_bindings()
        state = self._chart_state(view, case) if view and case else None
        self.query_one(StepChart).show(state)
        self.query_one(DeviceChart).show(state)
        self.query_one(MeanChart).show(state)
        self.query_one(NowPanel).show(state)
        self.query_one(CoverageGrid).show(view, case, alive=app.session.alive)
        self.query_one(StepLog).show(case, marked_steps(state.disturbed if state else None))
        if view is not None:
            self._show_results(view, case)
        else:
            self.query_one(Table).show((), ())

    def _show_results(self, view: RunView, case: CaseState | None) -> None:
        rows = self._rows or ResultRows(self.llmprof.look, {})
        self._rows = rows
        table = self.query_one(Table)
        table.note = rows.common(view)
        table.show(rows.columns(view), rows.rows(view, self._curves))
        table.put_cursor(str(case.index) if case else None)

    def _forget(self, watched: str | None) -> None:
        self._run = watched
        self.refresh_bindings()
        self.pinned = None
        self._curves = self._device = self._rows = None
        self._disturbed = Disturbed()
        table = self.query_one(Table)
        table.order, table.filter = None, ""
        if watched is not None and self.has_class("-setup"):
            self.show_setup(False)

    def _case_in_sight(self, view: RunView) -> CaseState | None:
        """The pinned case; else the running one, or the one before until it has a step."""
        if self.pinned is not None and self.pinned < len(view.cases):
            return view.cases[self.pinned]
        current = view.current
        if current is not None and current.steps_done:
            return current
        measured = [case for case in view.cases if case.steps_done]
        return measured[-1] if measured else current

    def _chart_state(self, view: RunView, case: CaseState) -> ChartState:
        curves = self._curves
        if curves is None or curves.key != (case.index, case.attempt):
            curves = self._curves = CaseCurves(case)
            self._device = None
        curves.update(case)
        if curves.origin_ns is not None:
            if self._device is None:
                self._device = DeviceCurves(curves.origin_ns)
            self._device.update(view, case.ended_ns)
        window = WINDOWS[self.zoom]
        name = "whole case" if window is None else f"last {window:g} s"
        done = case.done or not self.llmprof.session.alive
        span = time_window(curves, done, window)
        disturbed = self._disturbed.update(view, case)
        return ChartState(view, case, curves, self._device, span, name, disturbed)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        session = self.llmprof.session
        if action in ("stop", "pause"):
            return session.run is not None and (session.alive or session.paused)
        if action in ("export", "follow", "zoom", "grid"):
            return session.run is not None
        return True

    def show_setup(self, shown: bool) -> None:
        """Show or hide the set-up pane; where it fills the window, it takes the focus."""
        self.set_class(shown, "-setup")
        if shown:
            self.query_one(SetupPane).focus_first()
        else:
            self.query_one(Table).focus()
        self.call_after_refresh(self.catch_up)

    def on_setup_pane_changed(self, message: SetupPane.Changed) -> None:
        """Keep the choices for the run."""
        self.llmprof.choices = message.choices

    def on_table_moved(self, message: Table.Moved) -> None:
        """Look at the case under the cursor."""
        self.pinned = int(message.key)
        self.take(self.llmprof.snapshot)

    def action_run(self) -> None:
        """Start the experiment that the form describes."""
        pane = self.query_one(SetupPane)
        checked = pane.checked
        if checked.experiment is None:
            self.notify(checked.message, severity="error", markup=False)
            self.show_setup(True)
            return
        words = command(checked.experiment, smoke=checked.smoke)
        if self.llmprof.start_run(checked.experiment, words):
            remember(pane.choices)
            self.show_setup(False)

    def action_stop(self) -> None:
        """Stop the run in sight."""
        self.llmprof.stop_run()

    def action_setup(self) -> None:
        """Show or hide the set-up pane."""
        self.show_setup(not self.has_class("-setup"))

    def action_back(self) -> None:
        """From the set-up pane to the run."""
        if self.llmprof.session.run is not None:
            self.show_setup(False)

    def action_pause(self) -> None:
        """Hold the picture."""
        self.llmprof.toggle_pause()

    def action_follow(self) -> None:
        """Follow the running case."""
        self.pinned = None
        self.take(self.llmprof.snapshot)

    def action_zoom(self) -> None:
        """Show another stretch of time."""
        self.zoom = (self.zoom + 1) % len(WINDOWS)
        self.take(self.llmprof.snapshot)

    def action_log(self) -> None:
        """Swap results table and step log."""
        self.toggle_class("-log")
        self.call_after_refresh(self.catch_up)

    def action_grid(self) -> None:
        """Swap charts and coverage grid."""
        self.toggle_class("-grid")
        self.call_after_refresh(self.catch_up)

    def action_copy(self) -> None:
        """Copy the equivalent command by OSC 52; it stands on the screen as well."""
        checked = self.query_one(SetupPane).checked
        if checked.experiment is None:
            self.notify(checked.message, severity="error", markup=False)
            return
        line = command_line(checked.experiment, smoke=checked.smoke)
        self.app.copy_to_clipboard(line)
        self.notify(self.llmprof.look.text(line), title="Copied", markup=False)

    def action_export(self) -> None:
        """Open the export dialog for the run in sight."""
        self.llmprof.export(self.llmprof.session.run)
