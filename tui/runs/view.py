"""The Runs view: every run on this machine; open, watch, stop, export, rename, delete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from llmprof.core.store.run import Run
from llmprof.core.system.text import cause, clean
from llmprof.tui.kit.ask import AskDialog, Choice
from llmprof.tui.kit.ask_name import NameDialog
from llmprof.tui.kit.filter import FilterInput
from llmprof.tui.kit.table import Table
from llmprof.tui.kit.table_cells import Cell, TableColumn, TableRow
from llmprof.tui.kit.view import View
from llmprof.tui.session.feed import Snapshot
from llmprof.tui.session.run_index import ListedRun

COLUMNS = (
    TableColumn("Run", 24),
    TableColumn("Status", 11),
    TableColumn("Started", 16, priority=1),
    TableColumn("Cases", 8, "right"),
    TableColumn("Experiment", 10, priority=3),
    TableColumn("Device", 22, priority=2),
    TableColumn("Fastest … slowest", 24, flexible=True),
)
_ROLES = {"running": "accent", "complete": "good", "stopped": "warn", "interrupted": "warn",
          "failed": "bad", "empty": "muted"}  # fmt: skip


class RunsView(View):
    """The list of runs. Its own state: cursor, order, filter."""

    VIEW = "runs"
    LABEL = "Runs"
    KEY = "2"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,enter", "open", "Open", id="runs.open", tooltip="open the run, live if it runs"),
        Binding("x", "stop", "Stop", id="runs.stop", tooltip="stop the run under the cursor"),
        Binding("e", "export", "Export", id="runs.export", tooltip="export the run's results"),
        Binding("n", "rename", "Rename", id="runs.rename", tooltip="give the run a name"),
        Binding("d,delete", "delete", "Delete", id="runs.delete",
                tooltip="delete the run, after asking"),
        Binding("slash", "filter", "Filter", key_display="/", id="runs.filter",
                tooltip="show only runs that contain a text"),
        Binding("escape", "unfilter", "Clear filter", show=False, id="runs.unfilter",
                tooltip="show all runs again"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._runs_listed: tuple[ListedRun, ...] = ()

    def compose_body(self) -> ComposeResult:
        """The table, and the filter when it is wanted."""
        with Vertical(id="runs-body"):
            yield Table("Runs", "no runs yet: press 1, then r, to measure something", id="runs")
            yield FilterInput(id="filter")

    def on_mount(self) -> None:
        """The table has the keys."""
        self.query_one(Table).focus()
        self.llmprof.index.follow(True)

    def take(self, snapshot: Snapshot) -> None:
        """Show the newest list."""
        found = self.llmprof.index.latest
        if found is not None and found != self._runs_listed:
            self._runs_listed = found
            self.query_one(Table).show(COLUMNS, [self._row(listed) for listed in found])

    @property
    def current(self) -> Run | None:
        """The run under the cursor."""
        key = self.query_one(Table).current
        return next((listed.run for listed in self._runs_listed if listed.run.id == key), None)

    def on_table_selected(self, message: Table.Selected) -> None:
        """Open the run."""
        message.stop()
        self.action_open()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one(Table).set_filter(message.value)

    def on_input_submitted(self) -> None:
        """Back to the table, filtered."""
        self.query_one(Table).focus()

    def action_open(self) -> None:
        """Watch the run under the cursor in the Bench view."""
        if (run := self.current) is not None:
            self.llmprof.watch_run(run)
            self.app.switch_mode("bench")

    def action_stop(self) -> None:
        """Stop the run under the cursor."""
        if (run := self.current) is not None:
            self.llmprof.stop_run(run)

    def action_export(self) -> None:
        """Export the run under the cursor."""
        self.llmprof.export(self.current)

    def action_rename(self) -> None:
        """Ask for a name."""
        if (run := self.current) is not None:
            label = "" if run.label == run.id else run.label
            self.llmprof.ask(NameDialog(run.id, label), self._then(partial(self._rename, run)))

    def action_delete(self) -> None:
        """Delete after asking; a running run must be stopped first."""
        run = self.current
        if run is None:
            return
        if run.alive():
            self.notify("the run is still running; stop it first", severity="warning")
            return
        dialog = AskDialog(
            f"Delete {run.label}?",
            "Its journal, logs and artifacts are removed for good.",
            (Choice("delete", "d", "Delete", "bad"), Choice("cancel", "escape", "Keep")),
            at=1,
        )
        self.llmprof.ask(dialog, self._then(partial(self._delete, run)))

    def action_filter(self) -> None:
        """Show the filter."""
        self.add_class("-filter")
        self.query_one("#filter", Input).focus()

    def action_unfilter(self) -> None:
        """All runs."""
        self.query_one("#filter", Input).value = ""
        self.remove_class("-filter")
        self.query_one(Table).focus()

    def _delete(self, run: Run, answer: str | None) -> None:
        if answer != "delete":
            return
        try:
            if self.llmprof.session.run is not None and self.llmprof.session.run.id == run.id:
                self.llmprof.watch_run(None)
            run.delete()
        except (OSError, RuntimeError) as error:
            self._refused(error)

    def _rename(self, run: Run, answer: str | None) -> None:
        try:
            if answer is not None:
                run.rename(answer)
        except OSError as error:
            self._refused(error)

    def _refused(self, error: Exception) -> None:
        self.notify(self.llmprof.look.text(cause(error)), severity="error", markup=False)

    def _then(self, do: Callable[[str | None], None]) -> Callable[[str | None], None]:
        def after(answer: str | None) -> None:
            do(answer)
            self.llmprof.index.look_again()

        return after

    def _row(self, listed: ListedRun) -> TableRow:
        summary = listed.summary
        started = (
            "–"
            if summary.started is None
            else datetime.fromtimestamp(summary.started).strftime("%Y-%m-%d %H:%M")
        )
        failed = f" !{summary.done - summary.ok}" if summary.done > summary.ok else ""
        return TableRow(
            summary.id,
            (
                Cell(summary.label, "title"),
                Cell(summary.status, _ROLES[summary.status]),
                Cell(started, "text", summary.started),
                Cell(f"{summary.ok}/{summary.cases}{failed}", "text", float(summary.cases)),
                Cell(clean(summary.experiment or "–", 60)),
                Cell(clean(summary.device or "–", 60)),
                Cell(listed.headline, "muted", short=listed.span),
            ),
        )
