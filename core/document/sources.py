"""The runs that a document is about, and whether their figures may stand in one table."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llmprof.core.document.model_names import told_apart
from llmprof.core.events import Environment
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clean


class SourcesDiffer(ValueError):
    """Runs whose figures do not compare; its text is one line for the user."""


@dataclass(frozen=True)
class Source:
    """A run under the name that the document has for it; path is where it lies, if anywhere."""

    name: str
    subject: Subject
    path: Path | None = None

    @property
    def environment(self) -> Environment | None:
        """The machine on which it was measured."""
        return self.subject.environment

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return "" if self.subject.experiment is None else self.subject.experiment.name

    @property
    def command(self) -> str:
        """The command that measured it, "" where it was not recorded."""
        return shlex.join(self.subject.command)

    @cached_property
    def cases(self) -> tuple[CaseState, ...]:
        """Its configurations: the processes of one are one case."""
        return self.subject.as_one.cases

    def failed_checks(self, state: CaseState) -> tuple[str, ...]:
        """The checks that say no to a case or to one of its processes."""
        return self.subject.failed_checks(state)

    def why_unsound(self, states: Iterable[CaseState]) -> str:
        """The checks that say no to measured ones of some cases, by name; "" where none does."""
        measured = [state for state in states if state.total is not None]
        return ", ".join(self.subject.failed_checks(*measured))

    def sound(self, *states: CaseState) -> bool:
        """Whether no check says no to any of the cases."""
        return not any(self.failed_checks(state) for state in states)


def _name(subject: Subject) -> str:
    """What it measured; of someone's own training what that is called."""
    if subject.loops:
        return clean(subject.loops[0].started.label, 40)
    return "run" if subject.experiment is None else subject.experiment.name


def sources_of(
    runs: Sequence[tuple[RunView, Path | None]], *, mixed: bool = False
) -> tuple[Source, ...]:
    """Runs as the sources of one document, named by their experiments.

    Raises SourcesDiffer for runs of other devices, torch, llmprof or measuring code, unless they
    may be mixed.
    """
    found: list[Source] = []
    count: dict[str, int] = {}
    views = told_apart(view for view, _ in runs)
    for view, (_, path) in zip(views, runs, strict=True):
        subject = subject_of(view)
        name = _name(subject)
        count[name] = count.get(name, 0) + 1
        found.append(Source(name if count[name] == 1 else f"{name} {count[name]}", subject, path))
    wrong = differences(found)
    if wrong and not mixed:
        raise SourcesDiffer(
            f"these runs do not compare: {'; '.join(wrong)} (--mixed puts them in one document, "
            "with a column that says which is which)"
        )
    return tuple(found)


def identity(view: RunView) -> Hashable:
    """What a run shares with its copies alone: its name, when it began, and its plan."""
    began = view.segments[0] if view.segments else None
    when = None if began is None else (began.wall_ns, began.boot_id)
    return view.run_id, when, tuple(state.case.key for state in view.cases)


def differences(sources: Sequence[Source]) -> list[str]:
    """What differs between runs of the things that must be alike, each with its values."""
    told = []
    for label, values in _identities(sources).items():
        known = list(dict.fromkeys(value for value in values if value))
        if len(known) > 1:
            told.append(f"{label} {' and '.join(known)}")
    return told


def _identities(sources: Sequence[Source]) -> dict[str, list[str]]:
    environments = [source.environment for source in sources]
    known = [each for each in environments if each is not None]
    segments = [source.subject.segments for source in sources]
    return {
        "device": [each.device_name for each in known],
        "torch": [each.torch for each in known],
        "llmprof": [each[-1].version for each in segments if each],
        "measuring code": [each.worker_source or "" for each in known],
    }
