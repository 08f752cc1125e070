"""What to try after a run that is complete: each one key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clean
from llmprof.tui.session.choices import command, experiments
from llmprof.tui.session.curves import total_of
from llmprof.tui.session.probe_plan import choices_of, probe_plan

OTHER_PRECISION = "bf16"


@dataclass(frozen=True)
class NextStep:
    """A further run: its key, what it is in words, what is run."""

    key: str
    label: str
    experiment: Experiment
    command: tuple[str, ...]


def next_steps(view: RunView, models: Mapping[str, ModelShape]) -> tuple[NextStep, ...]:
    """Kernels of the slowest case, memory of the largest, the same in bf16; none of what it was."""
    if view.outcome != "complete" or view.experiment is None:
        return ()
    known = [
        case
        for case in view.cases
        if case.status == "ok" and models.get(case.case.model.name) == case.case.model
    ]
    timed = [case for case in known if case.case.probe == "timing"]
    probes = {case.case.probe for case in view.cases}
    found: list[NextStep] = []
    if timed and "kernels" not in probes:
        found += _probe("K", "kernels", max(timed, key=_mean), models)
    if known and "memory" not in probes:
        found += _probe("M", "memory", max(known, key=_peak), models)
    lacks = {} if view.environment is None else view.environment.unsupported
    alone = {case.case.precision for case in view.cases} == {"fp32"}
    if timed and alone and OTHER_PRECISION not in lacks and _only(view, models):
        other = msgspec.structs.replace(view.experiment, precisions=(OTHER_PRECISION,))
        found.append(NextStep("B", f"the same in {OTHER_PRECISION}", other, command(other)))
    return tuple(found)


def _only(view: RunView, models: Mapping[str, ModelShape]) -> bool:
    """Whether models and experiment can be asked for by name, so that a command says the same."""
    named = all(models.get(case.case.model.name) == case.case.model for case in view.cases)
    return named and view.experiment is not None and view.experiment.name in experiments()


def _probe(
    key: str, name: str, case: CaseState, models: Mapping[str, ModelShape]
) -> list[NextStep]:
    plan = probe_plan(name, choices_of(case.case), dict(models))
    if plan.experiment is None:
        return []
    label = f"{name} of {clean(case.case.model.name, 30)} {case.case.mode}"
    return [NextStep(key, label, plan.experiment, plan.command)]


def _mean(case: CaseState) -> float:
    total = total_of(case)
    return 0.0 if total is None else total.mean


def _peak(case: CaseState) -> float:
    return 0.0 if case.memory is None else float(case.memory.peak_bytes or 0)
