"""Cases of one configuration in its several modes, and what varies across a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from llmprof.core.events import ITS_OWN, SKIPPED
from llmprof.core.figures.outcomes import outcome_of
from llmprof.core.report.table import Cell, Column
from llmprof.core.spec.axes import BY_FIELD, GRID, Mode, varying
from llmprof.core.spec.case import Case, Phase
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

# Without the mode, which tables show in a column of their own or as several.
AXIS_COLUMNS: dict[str, Column] = {
    axis.field: Column(axis.label, axis.unit, numeric=not axis.values)
    for axis in GRID
    if axis.changes != "phases"
}


@dataclass(frozen=True)
class Group:
    """One configuration; its cases by mode."""

    case: Case
    modes: dict[Mode, CaseState]

    def source(self, phase: Phase) -> CaseState | None:
        """The case that gives this phase: the narrowest mode that has it."""
        return next((self.modes[m] for m in SOURCES[phase] if m in self.modes), None)

    @property
    def first(self) -> CaseState:
        """The case of its first mode: all that is the same in every mode is known of it."""
        return next(iter(self.modes.values()))

    @property
    def left_out(self) -> bool:
        """Whether every case was left out or never came to run: nothing to show but a reason."""
        return all(state.status in (SKIPPED, "pending") for state in self.modes.values())

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
    return axes_of(view.cases)


def axes_of(states: Iterable[CaseState], *without: str) -> list[tuple[str, Column]]:
    """The axes along which cases differ, less the mode and those that a table shows its own way."""
    return [
        (axis.field, AXIS_COLUMNS[axis.field])
        for axis in varying(state.case for state in states)
        if axis.field in AXIS_COLUMNS and axis.field not in without
    ]


def axis_cells(state: CaseState, axes: list[tuple[str, Column]]) -> tuple[Cell, ...]:
    """A case's values on some axes."""
    return tuple(axis_value(state, name) for name, _ in axes)


def axis_value(state: CaseState, name: str) -> Cell:
    """A case's value on an axis, as a cell; of an own model what it is instead."""
    axis, case = BY_FIELD[name], state.case
    if name == "attention" and case.attention == axis.neutral and case.has_own_attention:
        return ITS_OWN
    if name == "optimizer" and state.own_optimizer:
        return state.own_optimizer
    return axis.shown(axis.of(case))


def status_word(state: CaseState) -> str:
    """The word that stands in a cell where a case has no figure."""
    if state.status == "oom":
        return outcome_of(state)
    return SKIPPED if state.status == "pending" else state.status
