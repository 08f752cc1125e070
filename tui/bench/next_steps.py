"""What to try after a run that is complete: each one key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import Model, OwnModel
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clean
from llmprof.tui.session.choices import command, experiments, smoke_models
from llmprof.tui.session.curves import total_of
from llmprof.tui.session.probe_plan import case_plan

OTHER_PRECISION = "bf16"
OF_MODELS = frozenset({"timing", "memory", "kernels"})  # what is measured of whole models


@dataclass(frozen=True)
class NextStep:
    """A further run: its key, what it is in words, what is run."""

    key: str
    label: str
    experiment: Experiment
    command: tuple[str, ...]


class NextSteps(NamedTuple):
    """Further runs, or why none of a run's models can be run again."""

    steps: tuple[NextStep, ...] = ()
    why_none: str = ""


def next_steps(view: RunView, models: Mapping[str, ModelShape]) -> NextSteps:
    """Kernels of the slowest case, memory of the largest, the same in bf16; none of what it was."""
    whole = [case for case in view.cases if case.status == "ok" and case.case.probe in OF_MODELS]
    if view.outcome != "complete" or view.experiment is None or not whole:
        return NextSteps()
    small = smoke_models(view.experiment.name)
    known = [
        case for case in whole if _has_option(case.case.model, models) or case.case.model in small
    ]
    if not known:
        name = clean(whole[0].case.model.name, 30)
        return NextSteps(why_none=f"no preset here is the model {name} of this run")
    timed = [case for case in known if case.case.probe == "timing"]
    probes = {case.case.probe for case in view.cases}
    found: list[NextStep] = []
    if timed and "kernels" not in probes:
        found += _probe("K", "kernels", max(timed, key=_mean), models)
    if "memory" not in probes:
        found += _probe("M", "memory", max(known, key=_peak), models)
    lacks = {} if view.environment is None else view.environment.unsupported
    alone = {case.case.precision for case in view.cases} == {"fp32"}
    same = view.experiment.name in experiments() and all(
        _has_option(case.case.model, models) or case.case.model in small for case in view.cases
    )
    if timed and alone and OTHER_PRECISION not in lacks and same:
        other = msgspec.structs.replace(view.experiment, precisions=(OTHER_PRECISION,))
        found.append(NextStep("B", f"the same in {OTHER_PRECISION}", other, command(other)))
    return NextSteps(tuple(found))


def _has_option(model: Model, models: Mapping[str, ModelShape]) -> bool:
    """Whether a command line can name the model: a preset, or one of the user's own."""
    return isinstance(model, OwnModel) or models.get(model.name) == model


def _probe(
    key: str, name: str, case: CaseState, models: Mapping[str, ModelShape]
) -> list[NextStep]:
    model = case.case.model
    plan = case_plan(name, case.case, smoke=not _has_option(model, models))
    if plan.experiment is None:
        return []
    label = f"{name} of {clean(model.name, 30)} {case.case.mode}"
    return [NextStep(key, label, plan.experiment, plan.command)]


def _mean(case: CaseState) -> float:
    total = total_of(case)
    return 0.0 if total is None else total.mean


def _peak(case: CaseState) -> float:
    return 0.0 if case.memory is None else float(case.memory.peak_bytes or 0)
