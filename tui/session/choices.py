"""What the set-up pane holds: checked while typing, written as a command, remembered."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from llmprof.core.catalog.experiments import (
    DEFAULT,
    SMOKE,
    build_experiment,
    is_attention,
    load_experiments,
)
from llmprof.core.spec.axes import NONE, Attention, Mode, OptimizerKind, Precision, Value
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape, SpecError
from llmprof.core.system.text import clean

MOST_CASES = 2000
BUDGET: dict[str, Any] = {"cpu_budget_s": None}  # sizes that were ticked are measured
_LARGEST = 10**7
_OPTIONS = (
    ("--model-size", "models"),
    ("--mode", "modes"),
    ("--context-length", "context_lengths"),
    ("--batch-size", "batch_sizes"),
    ("--warmup-steps", "warmup_steps"),
    ("--measure-steps", "measure_steps"),
    ("--precision", "precisions"),
    ("--attention", "attentions"),
    ("--optimizer", "optimizers"),
    ("--checkpoint", "checkpoints"),
    ("--accumulate", "accumulates"),
)
_ALWAYS = 6  # of the default experiment's options, those that are always written


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """The form as it stands: ticked names and typed texts."""

    experiment: str = DEFAULT
    smoke: bool = False  # the experiment's own small sizes in place of the form's
    card: str = ""  # for which memory is predicted; empty: the one that is there
    models: tuple[str, ...] = ("small",)
    modes: tuple[Mode, ...] = ("train",)
    precisions: tuple[Precision, ...] = ("fp32",)
    attentions: tuple[Attention, ...] = ("naive",)
    optimizers: tuple[OptimizerKind, ...] = ("foreach",)
    context: str = "128"
    batch: str = "4"
    checkpoint: str = NONE
    accumulate: str = "1"
    warmup: str = "5"
    steps: str = "10"


@dataclass(frozen=True)
class Checked:
    """An experiment, or what is wrong with which field."""

    experiment: Experiment | None
    cases: int
    errors: dict[str, str]
    smoke: bool = False

    @property
    def message(self) -> str:
        """The first thing that is wrong; "" when nothing is."""
        return next(iter(self.errors.values()), "")


NUMBER_FIELDS = (
    ("context", "Context", 1, True),
    ("batch", "Batch", 1, True),
    ("checkpoint", "Checkpoint", 1, True),
    ("accumulate", "Micro-batch", 1, True),
    ("warmup", "Warm-up", 0, True),
    ("steps", "Steps", 1, False),
)  # field, label, least, whether a list is allowed
WORDS: dict[str, dict[str, Value]] = {"checkpoint": {NONE: None, "all": "all"}}  # beside numbers


def check_choices(choices: Choices, models: dict[str, ModelShape]) -> Checked:
    """The experiment that the form describes, or its errors by field."""
    if choices.smoke:
        return _build(choices, {})
    errors: dict[str, str] = {}
    numbers: dict[str, tuple[Value, ...]] = {}
    for field, label, least, many in NUMBER_FIELDS:
        words = WORDS.get(field, {})
        try:
            numbers[field] = parse_numbers(getattr(choices, field), label, least, many, words)
        except ValueError as error:
            errors[field] = str(error)
    shapes = tuple(models[name] for name in choices.models if name in models)
    own_shapes = is_attention(choices.experiment)  # widths of the experiment, no models
    if not shapes and not own_shapes:
        errors["models"] = "tick at least one model"
    for field in ("modes", "precisions", "attentions", "optimizers"):
        if not getattr(choices, field):
            errors[field] = f"choose at least one of {field}"
    if errors:
        return Checked(None, 0, errors)
    axes: dict[str, Any] = {
        "modes": choices.modes,
        "precisions": choices.precisions,
        "attentions": choices.attentions,
        "optimizers": choices.optimizers,
        "context_lengths": numbers["context"],
        "batch_sizes": numbers["batch"],
        "checkpoints": numbers["checkpoint"],
        "accumulates": numbers["accumulate"],
        "warmup_steps": numbers["warmup"],
    }
    if not own_shapes:
        axes["models"] = shapes
    size = math.prod(len(axis) for axis in axes.values())
    if size > MOST_CASES:
        return Checked(None, size, {"models": f"{size:,} cases are too many; {MOST_CASES:,} go"})
    return _build(choices, axes | {"measure_steps": numbers["steps"][0]})


def _build(choices: Choices, axes: dict[str, Any]) -> Checked:
    """The chosen experiment with the axes in which the form differs from it."""
    name, smoke = choices.experiment, choices.smoke
    try:
        own = build_experiment(name, {}, smoke=smoke)
        changed = {axis: value for axis, value in axes.items() if value != getattr(own, axis)}
        if "models" in changed or (name == DEFAULT and not smoke):
            changed |= BUDGET
        experiment = build_experiment(name, changed, smoke=smoke)
    except SpecError as error:
        return Checked(None, 0, {"experiment": clean(str(error))})
    return Checked(experiment, len(experiment.cases()), {}, smoke)


def choose_experiment(
    choices: Choices, name: str, models: dict[str, ModelShape], *, smoke: bool = False
) -> Choices:
    """The form filled in as an experiment has it; what it does not say stays."""
    try:
        own = build_experiment(name, {})
    except SpecError:
        return msgspec.structs.replace(choices, experiment=name, smoke=smoke)
    ticked = tuple(model.name for model in own.models if models.get(model.name) == model)
    return msgspec.structs.replace(
        choices,
        experiment=name,
        smoke=smoke,
        models=ticked or choices.models,
        modes=own.modes,
        precisions=own.precisions,
        attentions=own.attentions,
        optimizers=own.optimizers,
        context=_listed(own.context_lengths),
        batch=_listed(own.batch_sizes),
        checkpoint=_listed(own.checkpoints),
        accumulate=_listed(own.accumulates),
        warmup=_listed(own.warmup_steps),
        steps=str(own.measure_steps),
    )


def experiments() -> dict[str, tuple[str, bool]]:
    """Title of every experiment by name, and whether it has smoke sizes.

    Only the default one where the user's file cannot be read.
    """
    try:
        known = load_experiments()
    except SpecError:
        known = {DEFAULT: {}}
    return {
        clean(name, 40): (clean(str(fields.get("title", "")), 120), SMOKE in fields)
        for name, fields in known.items()
    }


def _listed(values: Iterable[Value]) -> str:
    return ",".join(map(_text, values))


def _text(value: Value) -> str:
    return NONE if value is None else str(value)


def parse_numbers(
    text: str, label: str, least: int, many: bool, words: Mapping[str, Value] = MappingProxyType({})
) -> tuple[Value, ...]:
    """Whole numbers, or what some words mean, separated by commas, each once.

    Raises ValueError with a line for people.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{label}: a number is missing")
    if len(parts) > 1 and not many:
        raise ValueError(f"{label}: one number only")
    numbers: dict[Value, None] = {}
    for part in parts:
        if part in words:
            numbers[words[part]] = None
            continue
        if not (part.isascii() and part.isdigit()):
            more = "".join(f" or {word}" for word in words)
            raise ValueError(f"{label}: {clean(part, 20)!r} is not a whole number{more}")
        value = int(part[:20])
        if not least <= value <= _LARGEST:
            raise ValueError(f"{label}: {part[:20]} is not between {least} and {_LARGEST:,}")
        numbers[value] = None
    return tuple(numbers)


def command(experiment: Experiment, *, smoke: bool = False) -> tuple[str, ...]:
    """The command line that runs the same experiment without a screen.

    Of a named experiment it says what differs; of the default one also the sizes as they are.
    """
    name = experiment.name
    words = ["llmprof", "run"] if name == DEFAULT else ["llmprof", "run", name]
    if smoke:
        return (*words, "--smoke")
    own = build_experiment(name, {})
    for at, (option, field) in enumerate(_OPTIONS):
        values = getattr(experiment, field)
        if values != getattr(own, field) or (name == DEFAULT and at < _ALWAYS):
            listed = values if isinstance(values, tuple) else (values,)
            words += [option, ",".join(getattr(v, "name", _text(v)) for v in listed)]
    return tuple(words)


def command_line(experiment: Experiment, *, smoke: bool = False) -> str:
    """The same as one line for a shell."""
    return shlex.join(command(experiment, smoke=smoke))
