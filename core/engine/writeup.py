"""What a write-up measures on a device within a budget, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from llmprof.core.engine.plan import estimate_s, refusal
from llmprof.core.events import Environment
from llmprof.core.figures.outcomes import to_resume
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import Model
from llmprof.core.spec.shape import ModelShape
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run
from llmprof.core.store.writeup import Entry, Manifest

ATTENTION_SHARE = 0.2  # of a write-up's time, for each experiment without sizes


def left_of(run: Run) -> tuple[int, ...]:
    """Cases that a run still lacks."""
    return to_resume(replay(run.journal))


def planned(
    experiments: Iterable[Experiment],
    environment: Environment,
    budget_s: float | None,
    start_s: float = 0.0,
) -> Manifest:
    """The experiments at the sizes that a device can take within a budget, with estimates.

    start_s: what a run takes that measures nothing, its engine's start and end.

    Sizes are taken from the smallest on, in all experiments together; the smallest is taken
    whatever it needs. What has no sizes, attention alone, is kept to lengths that take a share.
    """
    listed = list(experiments)
    shortened: list[str] = []
    if budget_s is not None:
        share = ATTENTION_SHARE * budget_s
        listed = [_shortened(each, environment, share, shortened) for each in listed]
    for_cases = None if budget_s is None else budget_s - start_s * len(listed)
    kept = _sizes(listed, environment, for_cases)
    entries: list[Entry] = []
    dropped: dict[str, Model] = {}
    for experiment in listed:
        models = tuple(model for model in experiment.models if model.name in kept)
        dropped |= {m.name: m for m in experiment.models if m.name not in kept}
        if models:
            reduced = msgspec.structs.replace(experiment, models=models)
            estimate = start_s + seconds(reduced, environment)
            entries.append(Entry(experiment=reduced, estimate_s=estimate))
    names = sorted(dropped, key=lambda name: _size(dropped[name]))
    return Manifest(entries=tuple(entries), left_out=(*names, *shortened))


def _shortened(
    experiment: Experiment, environment: Environment, share_s: float, left_out: list[str]
) -> Experiment:
    """An experiment of attention alone without the longest contexts, until it takes its share.

    The shortest stays, whatever it takes. What goes is named.
    """
    if experiment.probe != "attention":
        return experiment
    kept = sorted(experiment.context_lengths)
    reduced = experiment
    while len(kept) > 1 and seconds(reduced, environment) > share_s:
        kept.pop()
        reduced = msgspec.structs.replace(experiment, context_lengths=tuple(kept))
    if len(kept) < len(experiment.context_lengths):
        left_out.append(f"{experiment.name} above {kept[-1]:,} tokens")
    return reduced


def seconds(experiment: Experiment, environment: Environment) -> float:
    """About how long an experiment takes: what is refused takes nothing."""
    free = environment.memory_free_bytes
    return sum(
        estimate_s(case, environment) or 0.0
        for case in experiment.cases()
        if refusal(case, experiment, environment, free) is None
    )


def left_s(entries: Sequence[Entry], estimated_s: float, took_s: float) -> float:
    """About how long entries take, by how long others took that were estimated at so much."""
    pace = took_s / estimated_s if estimated_s else 1.0
    return pace * sum(entry.estimate_s or 0.0 for entry in entries)


def _size(model: Model) -> int:
    """Parameters, by which sizes are ordered; an own model's are not known and come first."""
    return model.parameters if isinstance(model, ModelShape) else 0


def _sizes(
    experiments: Sequence[Experiment], environment: Environment, budget_s: float | None
) -> set[str]:
    cost: dict[str, float] = {}
    parameters: dict[str, int] = {}
    fixed: set[str] = set()
    for experiment in experiments:
        for model in experiment.models:
            alone = msgspec.structs.replace(experiment, models=(model,))
            cost[model.name] = cost.get(model.name, 0.0) + seconds(alone, environment)
            parameters[model.name] = _size(model)
            if experiment.probe == "attention":
                fixed.add(model.name)
    spent = sum(cost[name] for name in fixed)
    kept: set[str] = set(fixed)
    for name in sorted(set(cost) - fixed, key=lambda each: parameters[each]):
        if budget_s is not None and kept - fixed and spent + cost[name] > budget_s:
            break
        spent += cost[name]
        kept.add(name)
    return kept
