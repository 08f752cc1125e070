"""What another look at the form's cases would be: its experiment with another probe."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import msgspec

from llmprof.core.spec.axes import AXES
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.tui.session.choices import (
    CHOSEN,
    COUNTED,
    Choices,
    build,
    check_choices,
    choose_experiment,
)

_KEPT = (
    "models",
    "card",
    *(axis.plural for axis in CHOSEN),
    *(axis.field for axis in COUNTED if axis.changes != "steps"),
)


@dataclass(frozen=True)
class ProbePlan:
    """What would be run and its command, or why it cannot be."""

    experiment: Experiment | None
    command: tuple[str, ...] = ()
    problem: str = ""

    @property
    def line(self) -> str:
        """The command for a shell."""
        return shlex.join(self.command)


def probe_plan(name: str, choices: Choices, models: dict[str, ModelShape]) -> ProbePlan:
    """The chosen models, switches and sizes in the experiment `name`, with steps of its own.

    Its own small sizes where the form holds an experiment's small sizes.
    """
    form = choices
    if choices.experiment != name and choices.smoke:
        form = choose_experiment(choices, name, models, smoke=True)
    elif choices.experiment != name:
        kept = {field: getattr(choices, field) for field in _KEPT}
        form = msgspec.structs.replace(choose_experiment(choices, name, models), **kept)
    checked = check_choices(form, models)
    if checked.experiment is None:
        return ProbePlan(None, problem=checked.message)
    return ProbePlan(checked.experiment, checked.command)


def case_plan(name: str, case: Case, *, smoke: bool) -> ProbePlan:
    """One case's model, switches and sizes in the experiment `name`, with steps of its own.

    smoke: the model is one of small sizes, which no option names: the experiment's own is meant.
    """
    axes: dict[str, Any] = {
        axis.plural: (axis.of(case),) for axis in AXES if axis.changes != "steps"
    }
    if not smoke:
        axes["models"] = (case.model,)
    checked = build(name, axes, smoke=smoke)
    if checked.experiment is None:
        return ProbePlan(None, problem=checked.message)
    return ProbePlan(checked.experiment, checked.command)
