"""The memory experiment for what the set-up pane has chosen."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import msgspec

from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.tui.session.choices import Choices, check_choices, choose_experiment, command

MEMORY_EXPERIMENT = "memory"
_KEPT = ("models", "modes", "precisions", "attentions", "optimizers", "context", "batch", "card")


@dataclass(frozen=True)
class MemoryPlan:
    """What would be recorded and its command, or why it cannot be."""

    experiment: Experiment | None
    command: tuple[str, ...] = ()
    problem: str = ""

    @property
    def line(self) -> str:
        """The command for a shell."""
        return shlex.join(self.command)


def memory_plan(choices: Choices, models: dict[str, ModelShape]) -> MemoryPlan:
    """The chosen models, modes, precisions and sizes, with the memory probe.

    A recording takes warm-up and steps of its own.
    """
    form = msgspec.structs.replace(choices, smoke=False)
    if choices.experiment != MEMORY_EXPERIMENT:
        kept = {name: getattr(choices, name) for name in _KEPT}
        form = msgspec.structs.replace(
            choose_experiment(choices, MEMORY_EXPERIMENT, models), **kept
        )
    checked = check_choices(form, models)
    if checked.experiment is None:
        return MemoryPlan(None, problem=checked.message)
    return MemoryPlan(checked.experiment, command(checked.experiment))
