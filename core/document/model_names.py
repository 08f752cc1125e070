"""One name, one model: models that share a name carry what tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from llmprof.core.spec.own_model import Model, OwnModel
from llmprof.core.state.view import CaseState, RunView

CONTENT = 7  # characters of a file's hash


def told_apart(views: Iterable[RunView]) -> tuple[RunView, ...]:
    """Runs whose models of one name and several shapes are renamed: smoke num_layers=1."""
    listed = tuple(views)
    models = dict.fromkeys(state.case.model for view in listed for state in view.cases)
    names = _names(tuple(models))
    return tuple(
        replace(view, cases=tuple(_renamed(state, names) for state in view.cases))
        if names
        else view
        for view in listed
    )


def _names(models: Sequence[Model]) -> dict[Model, str]:
    """The new names of the models that need one."""
    alike: dict[str, list[Model]] = {}
    for model in models:
        alike.setdefault(model.name, []).append(model)
    found: dict[Model, str] = {}
    for name, group in alike.items():
        facts = [_facts(model) for model in group]
        fields = dict.fromkeys(field for each in facts for field in each)
        apart = [field for field in fields if len({each.get(field) for each in facts}) > 1]
        for model, known in zip(group, facts, strict=True):
            told = [f"{field}={known[field]}" for field in apart if field in known]
            if told:
                found[model] = " ".join((name, *told))
    return found


def _facts(model: Model) -> dict[str, object]:
    """What a model is beside its name."""
    if isinstance(model, OwnModel):
        return {**dict(model.arguments), "file": model.content[:CONTENT]}
    facts: dict[str, object] = msgspec.to_builtins(model)
    return {name: value for name, value in facts.items() if name != "name"}


def _renamed(state: CaseState, names: dict[Model, str]) -> CaseState:
    model = state.case.model
    if model not in names:
        return state
    named = (
        model._replace(name=names[model])
        if isinstance(model, OwnModel)
        else msgspec.structs.replace(model, name=names[model])
    )
    return replace(state, case=msgspec.structs.replace(state.case, model=named))
