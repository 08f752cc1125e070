"""The app as views know it: they import this instead of the app, which stands above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from textual.worker import get_current_worker

from llmprof.core.system.text import clean
from llmprof.tui.kit.host import KitHost
from llmprof.tui.kit.view import View

if TYPE_CHECKING:
    from llmprof.core.spec.experiment import Experiment
    from llmprof.core.spec.shape import ModelShape
    from llmprof.core.state.view import CaseState, RunView
    from llmprof.core.store.run import Run
    from llmprof.tui.kit.dialog import Dialog
    from llmprof.tui.kit.table import RowTable
    from llmprof.tui.session.choices import Choices
    from llmprof.tui.session.run_index import RunIndex
    from llmprof.tui.session.screen_session import ScreenSession
    from llmprof.tui.session.setting import Setting


ExportFormat = Literal["md", "csv", "json", "html"]


class Exportable(Protocol):
    """What the export dialog writes. title names it, stem is the beginning of a file's name."""

    formats: Sequence[ExportFormat]
    title: str
    stem: str

    def text(self, fmt: ExportFormat) -> str:
        """What a preview shows; called in a thread."""

    def files(self, path: Path, fmt: ExportFormat, text: str) -> dict[Path, str]:
        """What is written for a text that text() gave, the file first."""


class Host(KitHost, Protocol):
    """What the app lends to views, beyond what they are made of, and does for them."""

    choices: Choices  # what the set-up pane holds

    @property
    def setting(self) -> Setting:
        """What the app was given."""

    @property
    def session(self) -> ScreenSession:
        """Which run is watched."""

    @property
    def index(self) -> RunIndex:
        """The list of runs, which begins when somebody first asks for it."""

    @property
    def models(self) -> dict[str, ModelShape]:
        """The presets and the user's own."""

    def watch_run(self, run: Run | None) -> None:
        """Show another run."""

    def open_run(self, run: Run) -> None:
        """Show another run, in the view that is made for it."""

    def start_run(
        self, experiment: Experiment, command: tuple[str, ...], then: Callable[[], None]
    ) -> None:
        """Start a run, after asking where it is long, too large or beside another; then then()."""

    def resume_run(self, run: Run, then: Callable[[], None]) -> None:
        """Measure what a run still lacks; then then()."""

    def stop_run(self, run: Run | None = None) -> None:
        """Ask a run's engine to stop, by default the watched one's."""

    def toggle_pause(self) -> None:
        """Hold the picture, or let it go on."""

    def export(self, run: Run | None) -> None:
        """Open the export dialog for a run."""

    def export_of(self, what: Exportable) -> None:
        """Open the export dialog."""

    def ask(self, dialog: Dialog[str], then: Callable[[str | None], None]) -> None:
        """Open a dialog, one at a time."""


class HostedView(View):
    """A view that works with runs: base of all that stand in a room of their own."""

    @property
    def host(self) -> Host:
        """The app, as far as views need it."""
        return cast("Host", self.app)

    def give_keys(self, table: RowTable) -> None:
        """A table that comes into sight has the keys, unless something else has them."""
        if self.focused is None:
            self.call_after_refresh(table.focus)

    def show_row(self, table: RowTable) -> None:
        """Show the row under a table's cursor in full: what was cut, and what was left out."""
        from llmprof.tui.kit.row_dialog import RowDialog  # not needed for the first frame

        if (row := table.current_row) is not None:
            self.host.ask(RowDialog(table.title, table.columns, row), lambda _: None)

    def judge(self, read: Callable[[], RunView], then: Callable[[tuple[str, ...]], None]) -> None:
        """Hand then() the verdict on a run and what to try next; of several asked for, the last."""
        self.run_worker(
            partial(self._judge, read, then),
            thread=True,
            group="verdict",
            exclusive=True,
            exit_on_error=False,
        )

    def _judge(self, read: Callable[[], RunView], then: Callable[[tuple[str, ...]], None]) -> None:
        """In a thread: reading a run and its tables takes longer than a key may wait."""
        from llmprof.core.document.results import outlook_lines  # not needed for the first frame

        lines = outlook_lines(read())
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(then, lines)

    def show_oom_account(self, state: CaseState, view: RunView) -> None:
        """Show what was alive in a case that ran out of memory, and what would have made it fit."""
        from llmprof.core.report.oom_account import oom_account  # loads what predicts
        from llmprof.tui.kit.table_dialog import TableDialog

        title = f"Out of memory: {clean(state.case.label, 120)}"
        self.host.ask(TableDialog(title, partial(oom_account, state, view)), lambda _: None)
