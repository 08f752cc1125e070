"""The Runs view: every run on this machine; open, watch, stop, export, rename, delete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Input

from llmprof.core.figures.outcomes import left_out, to_resume
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.listing import RunSummary
from llmprof.core.store.run import Run
from llmprof.core.system.text import cause, clean
from llmprof.tui.host import HostedView
from llmprof.tui.kit.ask import Answer, AskDialog
from llmprof.tui.kit.filter import FilterInput
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow
from llmprof.tui.runs.bindings import RUNS_BINDINGS
from llmprof.tui.runs.name_dialog import NameDialog
from llmprof.tui.runs.preview import RunPreview
from llmprof.tui.session.run_index import ListedRun

RUN_COLUMNS = (
    TableColumn("Run", 24),
    TableColumn("Status", 11),
    TableColumn("Started", 16, priority=1),
    TableColumn("Cases", 8, "right"),
    TableColumn("Experiment", 10, priority=3),
    TableColumn("Device", 22, priority=2),
    TableColumn("Fastest … slowest", 24),
)
LONGEST_NAME = 44  # for which other columns make room
PREVIEW = 7  # lines of the run under the cursor, where there are many runs
_RUN_ROLES = {"running": "accent", "complete": "good", "stopped": "warn", "interrupted": "warn",
          "failed": "bad", "empty": "muted"}  # fmt: skip
MARKED = (  # what the heading says, by how many runs are marked
    "",
    "A is marked: space on another run marks B",
    "c compares A and B",
)
_OF_A_RUN = ("open", "resume", "stop", "export", "mark", "rename", "delete")
_OVER = ("complete", "stopped", "interrupted")
RESTS_S = 0.3  # of the cursor on a run before it is read


class RunsView(HostedView):
    """The list of runs. Its own state: cursor, order, filter."""

    VIEW = "runs"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = RUNS_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self._runs_listed: tuple[ListedRun, ...] = ()
        self._marked_shown: tuple[Run, ...] = ()
        self._outlooks: dict[str, tuple[RunSummary, tuple[str, ...]]] = {}
        self._soon: Timer | None = None
        self._watched: Run | None = None  # when the list was last shown
        self._known: tuple[object, ...] = ()  # what decides which keys work

    def compose_body(self) -> ComposeResult:
        """The table, and the filter when it is wanted."""
        with Vertical(id="runs-body"):
            yield RowTable("Runs", "no runs yet: press 1, then r, to measure something", id="runs")
            yield RunPreview()
            yield FilterInput(id="filter")

    def on_mount(self) -> None:
        """The table has the keys."""
        self.query_one(RowTable).focus()
        self.host.index.follow(True)

    def take(self, snapshot: Snapshot) -> None:
        """Show the newest list."""
        found = self.host.index.latest
        marked = self.host.session.marked
        if found is None:
            return
        self._find_watched(found)
        if (found, marked) != (self._runs_listed, self._marked_shown):
            self._runs_listed = found
            self._show_rows()
            self._make_room()
            self._show_preview()

    def _find_watched(self, found: Sequence[ListedRun]) -> None:
        """Put the cursor on the watched run, when another one is watched than before."""
        watched = self.host.session.run
        if watched != self._watched and any(each.run == watched for each in found):
            self.query_one(RowTable).put_cursor(watched.id if watched else None)
            self._show_preview()
        self._watched = watched

    def _make_room(self) -> None:
        """Runs come first; what they leave shows the one under the cursor."""
        most = max(6, self.query_one("#runs-body").size.height - PREVIEW)
        self.query_one(RowTable).styles.height = min(most, len(self._runs_listed) + 3)

    def on_resize(self) -> None:
        """Another size, another half."""
        self.call_after_refresh(self._make_room)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        listed = self._listed if self.is_mounted else None
        if action == "compare":
            return len(self.host.session.marked) == 2
        if action not in _OF_A_RUN:
            return action != "filter" or bool(self._runs_listed)
        if listed is None:
            return False
        runs, view = listed.summary.status == "running", listed.figures.view
        if action == "stop":
            return runs and not listed.run.is_loop
        if action == "resume":
            return not runs and view.experiment is not None and bool(to_resume(view))
        if action == "export":
            return listed.summary.status != "empty"
        return not runs if action == "delete" else True

    def _refresh_keys(self, listed: ListedRun | None) -> None:
        """Have the keys offered that go with the run under the cursor."""
        known = (
            None if listed is None else (listed.summary, listed.figures.view.cases),
            self.host.session.marked,
            bool(self._runs_listed),
        )
        if known != self._known:
            self._known = known
            self.refresh_bindings()

    def _show_preview(self) -> None:
        listed = self._listed
        self._refresh_keys(listed)
        known = self._outlooks.get(listed.run.id) if listed else None
        fresh = listed is not None and known is not None and known[0] == listed.summary
        self.query_one(RunPreview).show(listed, known[1] if known and fresh else ())
        if self._soon is not None:
            self._soon.stop()
        if listed is not None and not fresh and listed.summary.status in _OVER:
            self._soon = self.set_timer(RESTS_S, partial(self._read_outlook, listed))

    @property
    def _listed(self) -> ListedRun | None:
        key = self.query_one(RowTable).current
        return next((each for each in self._runs_listed if each.run.id == key), None)

    def _read_outlook(self, listed: ListedRun) -> None:
        """Have the verdict on a run on which the cursor rests."""
        self.judge(partial(replay, listed.run.journal), partial(self._keep_outlook, listed))

    def _keep_outlook(self, listed: ListedRun, lines: tuple[str, ...]) -> None:
        self._outlooks[listed.run.id] = listed.summary, lines
        self._show_preview()

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Show the run under the cursor."""
        message.stop()
        self._show_preview()

    def _show_rows(self) -> None:
        self._marked_shown = self.host.session.marked
        rows = [self._row(listed) for listed in self._runs_listed]
        longest = max((cell_len(row.cells[0].text) for row in rows), default=0)
        name = replace(RUN_COLUMNS[0], width=max(RUN_COLUMNS[0].width, min(LONGEST_NAME, longest)))
        listing = self.query_one(RowTable)
        listing.note = MARKED[len(self._marked_shown)]
        listing.show((name, *RUN_COLUMNS[1:]), rows)

    @property
    def current(self) -> Run | None:
        """The run under the cursor."""
        listed = self._listed
        return None if listed is None else listed.run

    def on_row_table_selected(self, message: RowTable.Selected) -> None:
        """Open the run."""
        message.stop()
        self.action_open()

    def on_run_preview_selected(self, message: RunPreview.Selected) -> None:
        """What was alive in a case that ran out of memory; else open the run."""
        message.stop()
        key = self.query_one(RowTable).current
        view = next(
            (each.figures.view for each in self._runs_listed if each.run.id == key), RunView()
        )
        state = view.cases[message.case] if message.case < len(view.cases) else None
        if state is not None and state.status == "oom":
            self.show_oom_account(state, view)
        else:
            self.action_open()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one(RowTable).set_filter(message.value)
        self._show_preview()

    def on_input_submitted(self) -> None:
        """Back to the table, filtered."""
        self.query_one(RowTable).focus()

    def action_open(self) -> None:
        """Watch the run under the cursor in the Bench view, a tracked loop in its own."""
        if (run := self._chosen()) is not None:
            self.host.watch_run(run)
            self.app.switch_mode("loop" if self._is_loop(run) else "bench")

    def action_resume(self) -> None:
        """Measure what the run under the cursor still lacks."""
        if (run := self._chosen()) is not None:
            self.host.resume_run(run, self._resumed)

    def _resumed(self) -> None:
        self.app.switch_mode("bench")

    def action_stop(self) -> None:
        """Stop the run under the cursor."""
        if (run := self._chosen()) is not None:
            self.host.stop_run(run)

    def action_export(self) -> None:
        """Export the run under the cursor."""
        if (run := self._chosen()) is not None or self.current is None:
            self.host.export(run)

    def action_mark(self) -> None:
        """Mark the run under the cursor for comparison, or take its mark away."""
        if (run := self._chosen()) is not None:
            self.host.session.mark(run)
            self._show_rows()
            self._refresh_keys(self._listed)

    def action_compare(self) -> None:
        """Compare the marked runs."""
        self.app.switch_mode("compare")

    def action_rename(self) -> None:
        """Ask for a name."""
        if (run := self._chosen()) is not None:
            label = "" if run.label == run.id else run.label
            self.host.ask(NameDialog(run.id, label), self._then(partial(self._rename, run)))

    def action_delete(self) -> None:
        """Delete after asking; a running run must be stopped first."""
        run = self._chosen()
        if run is None:
            return
        if run.alive():
            remedy = "end the training itself first" if run.is_loop else "stop it first"
            self.notify(f"the run is still running; {remedy}", severity="warning")
            return
        dialog = AskDialog(
            f"Delete {run.label}?",
            "Its journal, logs and artifacts are removed for good.",
            (Answer("delete", "y", "Delete", "bad"), Answer("cancel", "escape", "Keep")),
            at=1,
        )
        self.host.ask(dialog, self._then(partial(self._delete, run)))

    def action_filter(self) -> None:
        """Show the filter."""
        self.add_class("-filter")
        self.query_one("#filter", Input).focus()

    def action_unfilter(self) -> None:
        """All runs."""
        self.query_one("#filter", Input).value = ""
        self.remove_class("-filter")
        self.query_one(RowTable).focus()

    def _delete(self, run: Run, answer: str | None) -> None:
        if answer != "delete":
            return
        try:
            if self.host.session.run == run:
                self.host.watch_run(None)
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                run.delete()
        except (OSError, RuntimeError) as error:
            self._refused(error)
        else:
            self._forget(run)

    def _chosen(self) -> Run | None:
        """The run under the cursor, if it is still there; else it leaves the list."""
        run = self.current
        if run is None or run.path.is_dir():
            return run
        self._gone(run)
        return None

    def _gone(self, run: Run) -> None:
        """Say that a run was deleted, in another terminal."""
        listed = next((each for each in self._runs_listed if each.run == run), None)
        name = run.id if listed is None else listed.summary.label
        self.notify(self.host.look.text(f"{clean(name, 80)} was deleted"), severity="warning",
                    markup=False)  # fmt: skip
        self._forget(run)

    def _forget(self, run: Run) -> None:
        """A deleted run is shown nowhere from now on."""
        if self.host.session.run == run:
            self.host.watch_run(None)
        self.host.session.unmark(run)
        self.host.index.drop(run)
        self.take(self.host.snapshot)

    def _is_loop(self, run: Run) -> bool:
        found = (each.summary.steps for each in self._runs_listed if each.run.id == run.id)
        return next(found, None) is not None

    def _rename(self, run: Run, answer: str | None) -> None:
        try:
            if answer is not None:
                run.rename(answer)
        except FileNotFoundError:
            self._gone(run)
        except OSError as error:
            self._refused(error)

    def _refused(self, error: Exception) -> None:
        self.notify(self.host.look.text(cause(error)), severity="error", markup=False)

    def _then(self, do: Callable[[str | None], None]) -> Callable[[str | None], None]:
        def after(answer: str | None) -> None:
            do(answer)
            self.host.index.look_again()

        return after

    def _label_cell(self, run: Run, label: str) -> TableCell:
        marked = self.host.session.marked
        if run not in marked:
            return TableCell(label, "title")
        return TableCell(f"{'AB'[marked.index(run)]}: {label}", "accent")

    def _row(self, listed: ListedRun) -> TableRow:
        summary = listed.summary
        started = (
            "–"
            if summary.started is None
            else datetime.fromtimestamp(summary.started).strftime("%Y-%m-%d %H:%M")
        )
        aside = left_out(listed.figures.view)
        failed = summary.done - summary.ok - aside
        words = [f"{summary.ok}/{summary.cases - aside}"]
        words += [f"{failed} failed"] if failed else []
        words += [f"{aside} left out"] if aside else []
        extent, short = ", ".join(words), ""
        if summary.steps is not None:
            extent, short = f"{summary.steps:,} steps", f"{summary.steps:,}"
        return TableRow(
            summary.id,
            (
                self._label_cell(listed.run, summary.label),
                TableCell(summary.status, _RUN_ROLES[summary.status]),
                TableCell(started, "text", summary.started),
                TableCell(extent, "text", float(summary.steps or summary.cases), short=short),
                TableCell(clean(summary.experiment or "–", 60)),
                TableCell(clean(summary.device or "–", 60)),
                TableCell(listed.figures.headline, "muted", short=listed.figures.span),
            ),
        )
