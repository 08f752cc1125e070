"""Base of the views that show one case of a run: which it is, and the next."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.results import CaseState
from llmprof.tui.screens.view import View
from llmprof.tui.widgets.table import Table


class CaseView(View):
    """Its own state: the case in sight, among those that have what the view shows."""

    def __init__(self) -> None:
        super().__init__()
        self.case: int | None = None  # index of the case in sight; None: the last
        self._cases: list[CaseState] = []
        self._run: str | None = None

    def on_mount(self) -> None:
        """The table has the keys."""
        self.query_one(Table).focus()

    @property
    def state(self) -> CaseState | None:
        """The case in sight."""
        found = next((state for state in self._cases if state.index == self.case), None)
        return found or (self._cases[-1] if self._cases else None)

    def gather(self, cases: Sequence[CaseState]) -> bool:
        """Take the cases there are to show; whether they are another run's than before."""
        run = self.llmprof.session.run
        before, self._run = self._run, run.id if run else None
        if self._run != before:
            self.case = None
        self._cases = list(cases) if run else []
        return self._run != before

    def show_case(self) -> None:
        """Show the case in sight."""
        raise NotImplementedError

    def action_case(self) -> None:
        """The next case."""
        state = self.state
        if state is not None:
            at = self._cases.index(state)
            self.case = self._cases[(at + 1) % len(self._cases)].index
            self.show_case()

    def action_export(self) -> None:
        """Open the export dialog for the run in sight."""
        self.llmprof.export(self.llmprof.session.run)
