"""The Bench view: set up an experiment, run it, watch every step arrive."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from llmprof.tui.bench.bindings import BENCH_BINDINGS
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.host import HostedView
from llmprof.tui.session.choices import Choices, check_choices
from llmprof.tui.session.remembered import remember

if TYPE_CHECKING:
    from llmprof.core.state.view import CaseState, RunView
    from llmprof.tui.bench.live import LivePanels
    from llmprof.tui.bench.next_steps import NextStep, NextSteps
    from llmprof.tui.kit.snapshot import Snapshot
    from llmprof.tui.kit.table import RowTable


class BenchView(HostedView):
    """Set-up pane and live panels. Its own state: case in sight, time window, panes in sight."""

    VIEW = "bench"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    AUTO_FOCUS = ""  # the shown pane says what has the keys
    BINDINGS: ClassVar[list[BindingType]] = BENCH_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.pinned: int | None = None  # case in sight; None follows the run
        self.zoom = 0
        self._next: NextSteps | None = None
        self._verdict = ""
        self._judging: RunView | None = None  # the finished run whose verdict is worked out
        self._next_after: RunView | None = None  # what they were worked out from
        self._run: str | None = None
        self._known: tuple[object, ...] = ()  # what decides which keys work
        self._pane: SetupPane | None = None
        self._live: LivePanels | None = None

    def compose_body(self) -> ComposeResult:
        """Set-up pane on the left, live panels on the right; first what is needed first.

        Where nothing runs, that is the pane alone: the panels, empty, follow the first frame.
        Where a run is watched, the pane is made when it is asked for.
        """
        idle = self.host.session.run is None
        self.set_class(idle, "-setup", update=False)
        with Horizontal(id="bench-body"):
            yield self._setup_pane() if idle else self._live_panels()

    def on_mount(self) -> None:
        """The shown pane has the keys; the clock ticks."""
        self.set_interval(1.0, self._keep_time)
        if self._live is not None:
            self._live.table.focus()

    def compose_rest(self) -> None:
        """What the first frame did without: the rest of the form, then the panels."""
        if self._pane is not None:
            self._pane.compose_rest()
        self.call_after_refresh(self._mount_panels)

    def _mount_panels(self) -> None:
        if self._live is None and self.is_attached:  # not where the screen ends
            self.query_one("#bench-body").mount(self._live_panels())

    def on_live_panels_ready(self, message: LivePanels.Ready) -> None:
        """Give the panels something to show."""
        message.stop()
        if not self.has_class("-setup") and self.focused is None:
            message.panels.table.focus()
        self.catch_up()

    @property
    def complete(self) -> bool:
        """Whether all panels are there, and all of the form where there is one."""
        return self._panels_stand and (self._pane is None or self._pane.whole)

    @property
    def _panels_stand(self) -> bool:
        return self._live is not None and self._live.ready

    def take(self, snapshot: Snapshot) -> None:
        """Bring every panel up to date."""
        session = self.host.session
        watched = session.run.id if session.run else None
        if watched != self._run:
            self._forget(watched)
        view = snapshot.view if session.run else None
        if view is not None and self._pane is not None:
            self._pane.show_environment(view.environment)
        if self._pane is not None:
            self._pane.show_machine(session.machine)
        known = session.alive, session.others
        if known != self._known:
            self._known = known
            self.refresh_bindings()
        self._suggest(view, alive=session.alive)
        if self._live is not None and self._live.ready:
            case = self._case_in_sight(view) if view else None
            note = snapshot.error or session.problem
            other = "" if session.beside is None else session.beside.label
            self._live.show(view, case, alive=session.alive, now_ns=session.now_ns(), note=note,
                            zoom=self.zoom, other=other, following=self._next,
                            verdict=self._verdict)  # fmt: skip

    def _suggest(self, view: RunView | None, *, alive: bool) -> None:
        """What to try after the run in sight, once it is complete; a demo measures nothing."""
        over = view is not None and not alive and view.outcome == "complete"
        self._conclude(view if over else None)
        if view is None or not over or self.host.setting.demo:
            self._next = self._next_after = None
        elif view is not self._next_after:
            from llmprof.tui.bench.next_steps import next_steps  # not needed for the first frame

            self._next, self._next_after = next_steps(view, self.host.models), view

    def _conclude(self, over: RunView | None) -> None:
        """Work out the verdict on a finished run, once."""
        if over is None:
            self._verdict, self._judging = "", None
        elif self._judging is None:
            self._judging = over
            self.judge(lambda: over, partial(self._concluded, over))

    def _concluded(self, over: RunView, lines: tuple[str, ...]) -> None:
        if self._judging is over:
            self._verdict = next(iter(lines), "")
            self.take(self.host.snapshot)

    @property
    def _further(self) -> tuple[NextStep, ...]:
        return self._next.steps if self._next else ()

    def _keep_time(self) -> None:
        """While nothing comes, as before a first step, the elapsed time goes on."""
        session = self.host.session
        if self._live is not None and self._live.ready and self.is_current and not session.paused:
            self._live.keep_time(session.now_ns())
        if self._live is not None and self._live.ready and self.is_current and session.paused:
            self._live.show_missed(session.missed_steps)

    def _setup_pane(self) -> SetupPane:
        self._pane = SetupPane(self.host.models, self.host.choices)
        return self._pane

    def _live_panels(self) -> LivePanels:
        from llmprof.tui.bench.live import LivePanels  # not needed for the first frame

        self._live = LivePanels(self.host.look)
        return self._live

    def _forget(self, watched: str | None) -> None:
        self._run = watched
        self._verdict, self._judging = "", None
        self.refresh_bindings()
        self.pinned = None
        if self._live is not None and self._live.ready:
            self._live.forget()
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
        if measured or current is not None:
            return measured[-1] if measured else current
        return next((case for case in reversed(view.cases) if case.done), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        session = self.host.session
        if action in ("stop", "pause"):
            there = session.run is not None and (session.alive or session.paused)
            ours = action != "stop" or not (there and session.snapshot.view.loops)
            return there and ours  # somebody's training is not ours to end
        if action == "watch":
            return session.beside is not None
        if action == "next":
            return any(step.key == parameters[0] for step in self._further)
        if action == "follow":
            return self.pinned is not None and session.alive
        if action in ("export", "zoom", "grid"):
            return session.run is not None
        return True

    def show_setup(self, shown: bool) -> None:
        """Show or hide the set-up pane; where it fills the window, it takes the focus."""
        self.set_class(shown, "-setup")
        if shown:
            if self._pane is None:
                self.query_one("#bench-body").mount(self._setup_pane(), before=0)
            self._setup_shown()
        elif self._live is not None and self._live.ready:
            self._live.table.focus()
        self.call_after_refresh(self.catch_up)

    def _setup_shown(self) -> None:
        if (pane := self._pane) is not None:
            pane.compose_rest()
            if pane.ready:  # else it takes the keys when it is
                pane.focus_first()

    def on_setup_pane_changed(self, message: SetupPane.Changed) -> None:
        """Keep the choices for the run."""
        self.host.choices = message.choices

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Look at the case under the cursor."""
        self.pinned = int(message.key)
        self.take(self.host.snapshot)
        self.refresh_bindings()

    def on_row_table_selected(self, message: RowTable.Selected) -> None:
        """Show the row in full, of a case that ran out of memory what was alive."""
        message.stop()
        view = self.host.snapshot.view
        state = view.cases[int(message.key)]
        if state.status == "oom":
            self.show_oom_account(state, view)
        else:
            self.show_row(message.table)

    def action_run(self) -> None:
        """Start the experiment that the form describes."""
        choices = self.host.choices
        checked = check_choices(choices, self.host.models)
        if checked.experiment is None:
            self.notify(checked.message, severity="error", markup=False)
            if not self.has_class("-setup"):
                self.show_setup(True)
            if self._pane is not None:
                self._pane.focus_error(next(iter(checked.errors)))
            return
        started = partial(self._started, choices)
        self.host.start_run(checked.experiment, checked.command, started)

    def _started(self, choices: Choices) -> None:
        remember(choices)
        self.show_setup(False)

    def action_next(self, key: str) -> None:
        """Start one of the runs that are suggested after the one in sight."""
        for step in self._further:
            if step.key == key:
                self.host.start_run(step.experiment, step.command, self._next_started)

    def _next_started(self) -> None:
        self.show_setup(False)

    def action_watch(self) -> None:
        """Watch the run that is going."""
        if (beside := self.host.session.beside) is not None:
            self.host.open_run(beside)

    def action_stop(self) -> None:
        """Stop the run in sight."""
        self.host.stop_run()

    def action_setup(self) -> None:
        """Show or hide the set-up pane."""
        self.show_setup(not self.has_class("-setup"))

    def action_back(self) -> None:
        """From the set-up pane to the run."""
        if self.host.session.run is not None:
            self.show_setup(False)

    def action_pause(self) -> None:
        """Hold the picture, or let it go on."""
        self.host.toggle_pause()
        session = self.host.session
        if self._live is not None:
            self._live.show_missed(session.missed_steps if session.paused else None)

    def action_follow(self) -> None:
        """Follow the running case."""
        self.pinned = None
        self.take(self.host.snapshot)
        self.refresh_bindings()

    def action_zoom(self) -> None:
        """Show another stretch of time."""
        from llmprof.tui.bench.chart_state import CASE_WINDOWS_S  # not needed for the first frame

        self.zoom = (self.zoom + 1) % len(CASE_WINDOWS_S)
        self.take(self.host.snapshot)

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
        checked = check_choices(self.host.choices, self.host.models)
        if checked.experiment is None:
            self.notify(checked.message, severity="error", markup=False)
            return
        self.app.copy_to_clipboard(checked.line)
        self.notify(self.host.look.text(checked.line), title="Copied", markup=False)

    def action_export(self) -> None:
        """Open the export dialog for the run in sight."""
        self.host.export(self.host.session.run)
