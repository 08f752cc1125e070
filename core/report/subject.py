"""What a report is about: a settled run, with what its tables share, worked out once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from llmprof.core.events import SKIPPED, Failure, FailureKind
from llmprof.core.figures.case_device import CaseDevice, join_run
from llmprof.core.figures.comparison import Comparison, compare
from llmprof.core.figures.replicates import configurations, processes_of
from llmprof.core.lint import Verdict, lint
from llmprof.core.state.view import CaseState, RunView

# A figure that one of these warns of is not what its configuration takes. What scatters or drifts
# within a process is not among them: differences are judged between processes.
DISQUALIFYING = frozenset(
    {
        "requested-observed",
        "shared-cpu",
        "throttled",
        "not-a-number",
        "disturbed",
        "warming",
        "cliff",
        "scaling",
        "elsewhere",
        "host-pace",
        "stolen-time",
        "trains-differently",
        "device",
    }
)
# Those that speak of what ran and not of how long it took: bytes are wrong where one says no.
OF_WHAT_RAN = frozenset({"requested-observed", "not-a-number", "elsewhere", "trains-differently"})


@dataclass(frozen=True)
class Subject(RunView):
    """A run of which nothing more comes: every case has ended, as `final` says.

    separate: the same with every process a case of its own, where cases are of several.
    """

    separate: Subject | None = None

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
        return self if cases == self.cases else replace(self, cases=cases, separate=self)

    def failed_checks(self, *states: CaseState) -> tuple[str, ...]:
        """The checks that say no to one of some cases or to one of its processes, each once."""
        verdicts = (self.separate or self).verdicts
        rules = (
            verdict.rule
            for state in states
            for each in processes_of(state)
            for verdict in verdicts.get(each.index, ())
            if verdict.level == "error"
            or (verdict.level == "warning" and verdict.rule in DISQUALIFYING)
        )
        return tuple(dict.fromkeys(rules))

    def failed_counts(self, *states: CaseState) -> tuple[str, ...]:
        """Of the checks that say no, those that speak of counts as well as of clocks."""
        return tuple(rule for rule in self.failed_checks(*states) if rule in OF_WHAT_RAN)

    def compare(self, base: CaseState, other: CaseState) -> Comparison | None:
        """other against base; nothing is judged where a check says no to one of them."""
        return compare(base, other, self.failed_checks(base, other))


def subject_of(view: RunView) -> Subject:
    """A run as a report shows it; one that is a subject already stays itself."""
    if isinstance(view, Subject):
        return view
    known = {each.name: getattr(view, each.name) for each in fields(RunView)}
    return Subject(**known | {"cases": tuple(final(each, view.state_words) for each in view.cases)})


def final(state: CaseState, of_run: str | None) -> CaseState:
    """A case as a report shows it, of a run in some state.

    What never ran is skipped; what never ended was stopped by the user, or killed with its run.
    """
    if state.done:
        return state
    if of_run == "running":
        failure = Failure(kind=SKIPPED, message="not yet: the run goes on", outside=True)
    elif state.status == "running":
        kind: FailureKind = "stopped" if of_run == "stopped" else "killed"
        failure = Failure(kind=kind, message="not finished when the run ended", outside=True)
    else:
        failure = Failure(kind=SKIPPED, message="the run ended first", outside=True)
    return replace(state, status=failure.kind, failure=failure)
