"""Cases of one configuration in its several modes, and what varies across a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from llmprof.core.events import Failure
from llmprof.core.report.table import Cell, Column
from llmprof.core.spec.case import Case, Mode, Phase
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary

# Narrowest mode first: what doesn't fit in training may still have a forward.
SOURCES: dict[Phase, tuple[Mode, ...]] = {
    "forward": ("forward", "forward-grad", "forward-backward", "train"),
    "loss": ("forward-backward", "train"),
    "backward": ("forward-backward", "train"),
    "optimizer": ("train",),
    "zero_grad": ("train", "forward-backward"),
}

AXES: tuple[tuple[str, Column], ...] = (
    ("context_length", Column("Context", "tokens")),
    ("batch_size", Column("Batch")),
    ("precision", Column("Precision", numeric=False)),
    ("attention", Column("Attention", numeric=False)),
    ("optimizer", Column("Optimizer", numeric=False)),
    ("compile", Column("Compiled", numeric=False)),
    ("warmup_steps", Column("Warm-up", "steps")),
)


@dataclass(frozen=True)
class Group:
    """One configuration; its cases by mode."""

    case: Case
    modes: dict[Mode, CaseState]

    def source(self, phase: Phase) -> CaseState | None:
        """The case that gives this phase: the narrowest mode that has it."""
        return next((self.modes[m] for m in SOURCES[phase] if m in self.modes), None)

    @property
    def left_out(self) -> bool:
        """Whether every case was left out or never came to run: nothing to show but a reason."""
        return all(state.status in ("skipped", "pending") for state in self.modes.values())

    def summary(self, phase: Phase) -> Summary | None:
        """Measured times of a phase, None when there are none."""
        state = self.source(phase)
        return None if state is None else state.summaries.get(phase)


def groups(view: RunView) -> list[Group]:
    """The timing cases of a run, those that differ only in mode together, in order.

    Configurations that were left out altogether are named among the failures only.
    """
    return [group for group in _all_groups(view) if not group.left_out]


def _all_groups(view: RunView) -> list[Group]:
    found: dict[str, Group] = {}
    for state in view.cases:
        if state.case.probe != "timing":
            continue
        base = msgspec.structs.replace(state.case, mode="train")
        found.setdefault(base.key, Group(base, {})).modes[state.case.mode] = state
    return list(found.values())


def varying_axes(view: RunView) -> list[tuple[str, Column]]:
    """The axes other than model and mode along which the run's cases differ."""
    return [
        (name, column)
        for name, column in AXES
        if len({getattr(state.case, name) for state in view.cases}) > 1
    ]


def axis_cells(case: Case, axes: list[tuple[str, Column]]) -> tuple[Cell, ...]:
    """A case's values on some axes."""
    return tuple(axis_value(case, name) for name, _ in axes)


def axis_value(case: Case, name: str) -> Cell:
    """A case's value on an axis, as a cell."""
    value = getattr(case, name)
    if name == "compile":
        return value or "no"
    return value if isinstance(value, (int, str)) else str(value)


def status_word(state: CaseState) -> str:
    """The word that stands in a cell where a case has no figure."""
    if state.status == "oom":
        predicted = state.failure is not None and state.failure.predicted
        return "OOM (predicted)" if predicted else "OOM"
    return {"pending": "skipped", "running": "killed"}.get(state.status, state.status)


def final(state: CaseState) -> CaseState:
    """A case as a report shows it: what never ran is skipped, what never ended was killed."""
    if state.done:
        return state
    if state.status == "running":
        failure = Failure(kind="killed", message="not finished when the run ended", outside=True)
    else:
        failure = Failure(kind="skipped", message="not run: the run ended first", outside=True)
    return replace(state, status=failure.kind, failure=failure)


def settled(view: RunView) -> RunView:
    """A run as a report shows it, every case with its final status."""
    return replace(view, cases=tuple(map(final, view.cases)))
