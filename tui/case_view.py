"""Base of the views that show one case of a run: which it is, and the next."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run
from llmprof.core.system.text import cause
from llmprof.tui.host import HostedView
from llmprof.tui.kit.how_to import HowTo, Way
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable
from llmprof.tui.session.probe_plan import ProbePlan, probe_plan

EARLIER = "recorded earlier:"  # before the name of a sample's case


def why_unread(error: Exception) -> str:
    """Why a case's file cannot be read, as with a run that is deleted meanwhile."""
    return "its file is not there" if isinstance(error, FileNotFoundError) else cause(error)


class CaseView(HostedView):
    """Its own state: the case in sight, among those that have what the view shows.

    A demo's view shows its sample, a run recorded before, while the watched run has no such case.
    """

    def __init__(self) -> None:
        super().__init__()
        self.case: int | None = None  # index of the case in sight; None: the last
        self.run: Run | None = None  # whose cases are in sight
        self.run_view = RunView()
        self._cases: list[CaseState] = []
        self._sample: RunView | None = None
        self._reading = False

    def on_mount(self) -> None:
        """The table has the keys."""
        for table in self.query(RowTable)[:1]:  # none when the app ends while it starts
            table.focus()

    @property
    def state(self) -> CaseState | None:
        """The case in sight."""
        found = next((state for state in self._cases if state.index == self.case), None)
        return found or (self._cases[-1] if self._cases else None)

    @property
    def is_sample(self) -> bool:
        """Whether the run in sight is not the watched one."""
        return self.run is not self.host.session.run

    def cases_of(self, view: RunView) -> list[CaseState]:
        """The cases of a run that have what the view shows."""
        raise NotImplementedError

    def gather(self, view: RunView) -> bool:
        """Take the cases of the watched run, or the sample's; whether it is another run's."""
        run = self.host.session.run
        cases = self.cases_of(view) if run else []
        sample = self.host.setting.samples.get(self.VIEW)
        if not cases and sample is not None and sample.path.is_dir():
            if self._sample is not None:
                run, view, cases = sample, self._sample, self.cases_of(self._sample)
            elif not self._reading:
                self._reading = True
                self.run_worker(partial(self._read, sample), thread=True, group="sample")
        before = self.run.id if self.run else None
        self.run, self.run_view, self._cases = run, view, cases
        other = (run.id if run else None) != before
        if other:
            self.case = None
        return other

    def _read(self, sample: Run) -> None:
        """In a thread: it takes longer than a key may wait."""
        try:
            view = replay(sample.journal)
        except OSError:
            return
        self.app.call_from_thread(self._have_read, view)

    def _have_read(self, view: RunView) -> None:
        self._sample = view
        self.catch_up()

    def show_case(self) -> None:
        """Show the case in sight."""
        raise NotImplementedError

    PROBE: ClassVar[str] = ""  # the experiment whose cases the view shows
    MAKES: ClassVar[str] = ""  # what its run does, as a verb

    def show_how_to(self, snapshot: Snapshot, lacking: str) -> None:
        """Say why there is no case, or that one is on its way, and how to get one."""
        session, current = self.host.session, snapshot.view.current
        how_to = self.query_one(HowTo)
        if session.alive and current is not None and current.case.probe == self.PROBE:
            how_to.show(Way(), f"{self.MAKES}; a case is shown when it ends")
            return
        plan = self.plan()
        note = "nothing measured yet" if session.run is None else lacking
        does, problem = "", plan.problem
        if plan.experiment is not None:
            count = len(plan.experiment.cases())
            noun = "case" if count == 1 else "cases"
            does = f"runs {count} {noun} of what the set-up pane holds"
        how_to.show(Way(does, plan.line, problem), note)

    def plan(self) -> ProbePlan:
        """What the view's own run would be."""
        return probe_plan(self.PROBE, self.host.choices, self.host.models)

    def action_record(self) -> None:
        """Start the view's own experiment for what the set-up pane holds."""
        plan = self.plan()
        if plan.experiment is None:
            self.notify(plan.problem, severity="error", markup=False)
        else:
            self.host.start_run(plan.experiment, plan.command, self.catch_up)

    def action_case(self) -> None:
        """The next case."""
        state = self.state
        if state is not None:
            at = self._cases.index(state)
            self.case = self._cases[(at + 1) % len(self._cases)].index
            self.show_case()

    def action_export(self) -> None:
        """Open the export dialog for the run in sight."""
        self.host.export(self.run)
