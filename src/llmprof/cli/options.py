"""Options that choose what is measured, shared by several commands."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from llmprof.cli.declare import DIMENSIONS, add_case_options, add_export_option
from llmprof.cli.effects import refuse_without_effect
from llmprof.cli.exits import UserError
from llmprof.cli.types import AUTO
from llmprof.core.catalog.experiments import (
    DEFAULT,
    build_experiment,
    is_attention,
    load_experiments,
)
from llmprof.core.catalog.models import load_models, select_models
from llmprof.core.catalog.names import named
from llmprof.core.spec.axes import AXES, Axis, Value, option_name
from llmprof.core.spec.experiment import (
    MOST_MEASURE_STEPS,
    MOST_WARMUP_STEPS,
    TARGET_PERCENT,
    Experiment,
)
from llmprof.core.spec.own_model import OwnModel, arguments, find_own_models
from llmprof.core.spec.shape import ModelShape, SpecError

__all__ = ["add_case_options", "add_export_option", "experiment_from"]


def experiment_from(
    args: argparse.Namespace, name: str = DEFAULT, also: Sequence[str] = ()
) -> Experiment:
    """The experiment that the options ask for. Raises UserError.

    also: what could be named in its place, for the message.
    """
    axes = {
        **{axis.plural: _values(axis, args) for axis in AXES if axis.changes != "steps"},
        "variants": args.variant,
        **_steps(args),
        "processes": args.processes,
        "interleave": args.interleave or None,
        "profile_steps": args.profile_steps,
        "stacks": args.stacks or None,
        "trace": args.chrome_trace or None,
        "nvtx": args.nvtx or None,
        "snapshot": args.snapshot or None,
        "peak_tflops": args.peak_tflops,
        "device": args.device,
        "seed": args.seed,
        "silence_s": args.timeout,
        "force": args.force or None,
    }
    overrides: dict[str, Any] = {key: value for key, value in axes.items() if value is not None}
    try:
        chosen = _models(args, name)
        if chosen:
            # Sizes that were asked for are measured, however long they take.
            overrides |= chosen | {"cpu_budget_s": None}
        experiment = build_experiment(name, overrides, smoke=args.smoke, also=also)
    except SpecError as error:
        hint = "; the items of a list are joined by commas: small,medium" if _is_item(name) else ""
        raise UserError(f"{error}{hint}") from error
    refuse_without_effect(args, experiment)
    return experiment


def _values(axis: Axis, args: argparse.Namespace) -> list[Value] | None:
    """What the options say of an axis; None where they don't."""
    words: list[Any] | None = getattr(args, axis.field)
    if words is None or not axis.values:
        return words
    return [axis.value(word) for word in words]


def _is_item(name: str) -> bool:
    """Whether what stands for an experiment is an item of some list, as after a blank in one."""
    try:
        experiments, models = load_experiments(), load_models()
    except SpecError:
        return False  # a file that cannot be read is what is wrong
    if named(name, experiments) is not None:
        return False
    items = (*models, *(word for axis in AXES for word in axis.words))
    return name.isdigit() or named(name, items) is not None


def _steps(args: argparse.Namespace) -> dict[str, Any]:
    """Fields for fixed or automatic numbers of steps; a target implies automatic measuring."""
    fields: dict[str, Any] = {"warmup_steps": args.warmup_steps}
    if args.warmup_steps == AUTO:
        fields = {"warmup_steps": [MOST_WARMUP_STEPS], "warmup_auto": True}
    if args.measure_steps != AUTO and args.target is None:
        return fields | {"measure_steps": args.measure_steps}
    most = MOST_MEASURE_STEPS if args.measure_steps in (AUTO, None) else args.measure_steps
    target = TARGET_PERCENT if args.target is None else args.target
    return fields | {"measure_steps": most, "target_percent": target}


def _models(args: argparse.Namespace, experiment: str) -> dict[str, Any]:
    """The experiment's models or widths, where the options name any. Raises SpecError."""
    changes = {name: v for name in DIMENSIONS if (v := getattr(args, name)) is not None}
    own = _own_models(args)
    if own and is_attention(experiment):
        raise SpecError(f"--model: {experiment} measures attention alone, without a model")
    if not args.model_size and set(changes) == {"d_model"} and is_attention(experiment):
        return {"widths": changes["d_model"]}
    if not args.model_size and not changes:
        return {"models": own} if own else {}
    if own and not args.model_size:
        raise SpecError(
            f"{option_name(next(iter(changes)))} is for presets: a model of your own is changed by "
            "--model-arg, where its factory has such an argument; presets beside it are named by "
            "--model-size"
        )
    models = _to_change(args, experiment)
    grid = itertools.product(*changes.values())
    varied = {name for name, values in changes.items() if len(values) > 1}
    return {
        "models": [
            _changed(model, dict(zip(changes, values, strict=True)), varied)
            for values in grid
            for model in models
        ]
        + own
    }


def _to_change(args: argparse.Namespace, experiment: str) -> Sequence[ModelShape]:
    """The models that the named dimensions change: at smoke size the experiment's own."""
    usual = build_experiment(experiment, {}, smoke=True).models if args.smoke else ()
    small = [model for model in usual if isinstance(model, ModelShape)]
    return small if small and not args.model_size else select_models(args.model_size or ["small"])


def _own_models(args: argparse.Namespace) -> list[OwnModel]:
    """The user's own models that the options name. Raises SpecError."""
    given = arguments(args.model_arg or ())
    if given and not args.model:
        raise SpecError("--model-arg has no effect without --model")
    folders = (Path.cwd(), *map(Path, filter(None, sys.path)))
    return find_own_models(args.model or (), given, folders)


def _changed(model: ModelShape, changes: dict[str, int], varied: set[str]) -> ModelShape:
    """A model of other dimensions, marked so; those that the grid varies stand in its name."""
    if not changes:
        return model
    apart = "".join(f" {name}={changes[name]}" for name in changes if name in varied)
    return msgspec.structs.replace(model, **changes, name=f"{model.name}+{apart}")
