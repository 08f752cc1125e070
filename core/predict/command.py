"""The command line that measures a case."""

from __future__ import annotations

import shlex

from llmprof.core.catalog.models import load_models
from llmprof.core.spec.axes import GRID
from llmprof.core.spec.case import Case, Probe
from llmprof.core.spec.experiment import as_used
from llmprof.core.spec.shape import ModelShape, SpecError

_ALWAYS = ("context_length", "batch_size", "mode", "precision")
_DIMENSIONS = ("vocab_size", "d_model", "d_ff", "num_layers", "num_heads", "kv_heads")
_EXPERIMENTS: dict[Probe, str] = {"memory": "memory", "kernels": "kernels"}


def command_of(case: Case) -> str:
    """The command line that measures a case with the probe that it has."""
    if case.probe == "attention":
        return shlex.join(_attention(case))
    experiment = [_EXPERIMENTS[case.probe]] if case.probe in _EXPERIMENTS else []
    words = ["llmprof", "run", *experiment, *_model_options(case)]
    used = as_used(case)  # an option without effect is refused
    for axis in GRID:
        value = axis.of(used)
        if axis.changes == "steps":
            continue
        if value != axis.neutral or axis.field in _ALWAYS:
            words += [axis.option, axis.text(value)]
    return shlex.join(words)


def _attention(case: Case) -> list[str]:
    """Of one attention alone: its variants are those of the experiment, which measures them all."""
    words = ["llmprof", "run", "attention", "--d-model", str(case.reference.d_model)]
    for axis in GRID:
        if axis.field in _ALWAYS:
            words += [axis.option, axis.text(axis.of(case))]
    return words


def _model_options(case: Case) -> list[str]:
    model = case.model
    if not isinstance(model, ModelShape):
        given = [f"{name}={value}" for name, value in model.arguments]
        return ["--model", model.source, *(w for each in given for w in ("--model-arg", each))]
    try:
        known = load_models()
    except SpecError:
        known = {}
    base = known.get(model.name) or known.get(model.name.partition("+")[0])
    if base is None:
        base = next(iter(known.values()), None)
    words = ["--model-size", base.name if base else model.name]
    for field in _DIMENSIONS:
        value = getattr(model, field)
        if base is None or value != getattr(base, field):
            words += [f"--{field.replace('_', '-')}", str(value)]
    return words
