"""What a report is about: a settled run, with what its tables share, worked out once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from llmprof.core.events import Failure, FailureKind, Outcome
from llmprof.core.figures.case_device import CaseDevice, join_run
from llmprof.core.figures.replicates import configurations
from llmprof.core.lint import Verdict, lint
from llmprof.core.state.view import CaseState, RunView


@dataclass(frozen=True)
class Subject(RunView):
    """A run of which nothing more comes: every case has ended, as `final` says."""

    @cached_property
    def verdicts(self) -> dict[int, tuple[Verdict, ...]]:
        """What the checks say of every case, by its index."""
        return lint(self)

    @cached_property
    def devices(self) -> tuple[CaseDevice, ...]:
        """What the card did in every case."""
        return join_run(self)

    @cached_property
    def as_one(self) -> Subject:
        """The same with the processes of each configuration as one case."""
        cases = configurations(self.cases)
        return self if cases == self.cases else replace(self, cases=cases)


def subject_of(view: RunView) -> Subject:
    """A run as a report shows it; one that is a subject already stays itself."""
    if isinstance(view, Subject):
        return view
    known = {each.name: getattr(view, each.name) for each in fields(RunView)}
    return Subject(**known | {"cases": tuple(final(each, view.outcome) for each in view.cases)})


def final(state: CaseState, outcome: Outcome | None) -> CaseState:
    """A case as a report shows it, of a run that ended so.

    What never ran is skipped; what never ended was stopped by the user, or killed with its run.
    """
    if state.done:
        return state
    if state.status == "running":
        kind: FailureKind = "stopped" if outcome == "stopped" else "killed"
        failure = Failure(kind=kind, message="not finished when the run ended", outside=True)
    else:
        failure = Failure(kind="skipped", message="not run: the run ended first", outside=True)
    return replace(state, status=failure.kind, failure=failure)
