"""The memory experiment for what the set-up pane has chosen."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from llmprof.core.experiments import build_experiment
from llmprof.core.spec import Experiment, ModelShape, SpecError
from llmprof.core.text import clean
from llmprof.tui.choices import BUDGET, Choices, check, command

NAME = "memory"
_STEPS = ("--warmup-steps", "--measure-steps")  # a recording takes its own


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
    """The chosen models, modes, precisions and sizes, with the memory probe."""
    checked = check(choices, models)
    chosen = checked.experiment
    if chosen is None:
        return MemoryPlan(None, problem=checked.message)
    axes = {
        "models": chosen.models,
        "modes": chosen.modes,
        "precisions": chosen.precisions,
        "attentions": chosen.attentions,
        "optimizers": chosen.optimizers,
        "context_lengths": chosen.context_lengths,
        "batch_sizes": chosen.batch_sizes,
    }
    try:
        experiment = build_experiment(NAME, axes | BUDGET)
    except SpecError as error:
        return MemoryPlan(None, problem=clean(str(error)))
    words = list(command(chosen)[2:])
    for option in _STEPS:
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return MemoryPlan(experiment, ("llmprof", "run", NAME, *words))
