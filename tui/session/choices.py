"""What the set-up pane holds: checked while typing, written as a command, remembered."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec

from llmprof.core.catalog.experiments import (
    DEFAULT,
    SMOKE,
    build_experiment,
    is_attention,
    load_experiments,
)
from llmprof.core.spec.axes import AXES, NONE, Axis, Value
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import Model, OwnModel, arguments, find_own_models
from llmprof.core.spec.shape import ModelShape, SpecError
from llmprof.core.system.text import clean

MOST_CASES = 2000
LONGEST_OWN = 400  # characters of the models of one's own
BUDGET: dict[str, Any] = {"cpu_budget_s": None}  # sizes that were ticked are measured
_LARGEST = 10**7
CHOSEN: tuple[Axis, ...] = tuple(axis for axis in AXES if not axis.numbers)  # among names
COUNTED: tuple[Axis, ...] = tuple(  # typed numbers; what is mostly left as it is comes last
    sorted((axis for axis in AXES if axis.numbers), key=lambda axis: axis.neutral in (1, None))
)
_OPTIONS = (
    ("--model-size", "models"),
    *((axis.option, axis.plural) for axis in AXES),
    ("--measure-steps", "measure_steps"),
)
_ALWAYS = frozenset(  # of the default experiment's options, those that are always written
    {"models", "modes", "context_lengths", "batch_sizes", "warmup_steps", "measure_steps"}
)

_AxisChoices: Any = msgspec.defstruct(
    "_AxisChoices",
    [
        *((axis.plural, tuple[str, ...], (axis.text(axis.neutral),)) for axis in CHOSEN),
        *((axis.field, str, axis.text(axis.neutral)) for axis in COUNTED),
    ],
    frozen=True,
    kw_only=True,
)


class Choices(_AxisChoices, frozen=True, kw_only=True):  # type: ignore[misc,call-arg]
    """The form as it stands: ticked names and typed texts, of every axis one or several."""

    experiment: str = DEFAULT
    smoke: bool = False  # the experiment's own small sizes in place of the form's
    card: str = ""  # for which memory is predicted; empty: the one that is there
    models: tuple[str, ...] = ("small",)
    own_models: str = ""  # of the user's own, as --model takes them, and arguments for them
    measure_steps: str = "10"


class NumberField(msgspec.Struct, frozen=True):
    """A number of the form: its name in the choices, its label, its least, if it may be a list."""

    name: str
    label: str
    least: int
    many: bool = True
    axis: Axis | None = None  # whose words may stand beside the numbers

    @property
    def words(self) -> tuple[str, ...]:
        """What may be typed besides numbers."""
        return () if self.axis is None else self.axis.words


NUMBER_FIELDS = (
    *(NumberField(axis.field, axis.label, axis.least, axis=axis) for axis in COUNTED),
    NumberField("measure_steps", "Steps", 1, many=False),
)


class Checked(msgspec.Struct, frozen=True):
    """An experiment, or what is wrong with which field."""

    experiment: Experiment | None
    cases: int
    errors: dict[str, str]
    smoke: bool = False
    command: tuple[str, ...] = ()  # what runs the same without a screen

    @property
    def message(self) -> str:
        """The first thing that is wrong; "" when nothing is."""
        return next(iter(self.errors.values()), "")

    @property
    def line(self) -> str:
        """The command as one line for a shell."""
        return shlex.join(self.command)


def check_choices(choices: Choices, models: dict[str, ModelShape]) -> Checked:
    """The experiment that the form describes, or its errors by field."""
    if choices.smoke:
        return build(choices.experiment, {}, smoke=True)
    errors: dict[str, str] = {}
    numbers: dict[str, tuple[Value, ...]] = {}
    for field in NUMBER_FIELDS:
        try:
            numbers[field.name] = parse_numbers(getattr(choices, field.name), field)
        except ValueError as error:
            errors[field.name] = str(error)
    shapes = tuple(models[name] for name in choices.models if name in models)
    own_shapes = is_attention(choices.experiment)  # widths of the experiment, no models
    try:
        own = parse_own_models(choices.own_models)
        if own and own_shapes:
            errors["own_models"] = f"{choices.experiment} measures attention alone, without a model"
    except SpecError as error:
        own = ()
        errors["own_models"] = clean(str(error))
    if not shapes and not own and not own_shapes and "own_models" not in errors:
        errors["models"] = "tick at least one model, or name one of your own"
    values: dict[str, tuple[Value, ...]] = {}
    for axis in CHOSEN:
        words = getattr(choices, axis.plural)
        values[axis.plural] = tuple(axis.value(word) for word in words if word in axis.words)
        if not values[axis.plural]:
            errors[axis.plural] = f"choose at least one of {axis.plural}"
    if errors:
        return Checked(None, 0, errors)
    axes: dict[str, Any] = {**values, **{axis.plural: numbers[axis.field] for axis in COUNTED}}
    if not own_shapes:
        axes["models"] = (*shapes, *own)
    size = math.prod(len(axis) for axis in axes.values())
    if size > MOST_CASES:
        return Checked(None, size, {"models": f"{size:,} cases are too many; {MOST_CASES:,} go"})
    return build(choices.experiment, axes | {"measure_steps": numbers["measure_steps"][0]})


def build(name: str, axes: dict[str, Any], *, smoke: bool = False) -> Checked:
    """An experiment, or its small sizes, but for the axes whose values differ from its own."""
    try:
        own = build_experiment(name, {}, smoke=smoke)
        changed = {axis: value for axis, value in axes.items() if value != getattr(own, axis)}
        if "models" in changed or (name == DEFAULT and not smoke):
            changed |= BUDGET
        experiment = build_experiment(name, changed, smoke=smoke)
    except SpecError as error:
        return Checked(None, 0, {"experiment": clean(str(error))})
    words = _written(experiment, own, smoke=smoke)
    return Checked(experiment, len(experiment.cases()), {}, smoke, words)


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
        measure_steps=str(own.measure_steps),
        **{axis.plural: tuple(map(axis.text, getattr(own, axis.plural))) for axis in CHOSEN},
        **{axis.field: ",".join(map(axis.text, getattr(own, axis.plural))) for axis in COUNTED},
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


def parse_own_models(text: str) -> tuple[OwnModel, ...]:
    """Models of the user's own, separated by commas; behind them arguments for their factories.

    As in `mine.py:build, other.py:build n_layer=4`; what holds blanks stands in quotes. Raises
    SpecError.
    """
    words = _unquoted(text)
    sources = [word for word in words if "=" not in word]
    given = arguments(word for word in words if "=" in word)
    if given and not sources:
        raise SpecError("write file.py:factory before the arguments")
    folders = (Path.cwd(), *map(Path, filter(None, sys.path)))
    return tuple(find_own_models(sources, given, folders))


def _unquoted(text: str) -> list[str]:
    """The words between blanks and commas, those in quotes whole. Raises SpecError."""
    split = shlex.shlex(text, posix=True)
    split.whitespace += ","
    split.whitespace_split = True
    split.commenters = split.escape = ""
    try:
        return list(split)
    except ValueError as error:
        raise SpecError("a quote is not closed") from error


def parse_numbers(text: str, field: NumberField) -> tuple[Value, ...]:
    """Whole numbers, or a field's words, separated by commas, each once.

    Raises ValueError with a line for people.
    """
    label = field.label
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{label}: a number is missing")
    if len(parts) > 1 and not field.many:
        raise ValueError(f"{label}: one number only")
    numbers: dict[Value, None] = {}
    for part in parts:
        if field.axis is not None and part in field.words:
            numbers[field.axis.value(part)] = None
            continue
        value = int(part[:20]) if part.isascii() and part.isdigit() else -1
        if not field.least <= value <= _LARGEST:
            raise ValueError(f"{label}: {clean(part, 20)!r} is not {_wanted(field)}")
        numbers[value] = None
    return tuple(numbers)


def _wanted(field: NumberField) -> str:
    number = f"a whole number from {field.least} to {_LARGEST:,}"
    return " or ".join((number, *field.words))


def command(experiment: Experiment) -> tuple[str, ...]:
    """The command line that runs the same experiment without a screen.

    Of a named experiment it says what differs; of the default one also the sizes as they are.
    """
    smoke = bool(experiment.models) and experiment.models == smoke_models(experiment.name)
    own = build_experiment(experiment.name, {}, smoke=smoke)
    return _written(experiment, own, smoke=smoke)


def smoke_models(name: str) -> tuple[Model, ...]:
    """The models of an experiment's small sizes; none where it has no such sizes."""
    try:
        return build_experiment(name, {}, smoke=True).models
    except SpecError:
        return ()


def _written(experiment: Experiment, own: Experiment, *, smoke: bool) -> tuple[str, ...]:
    """The command line for an experiment that is `own`, its small sizes, but for some fields."""
    name = experiment.name
    words = [*_named(name), "--smoke"] if smoke else _named(name)
    always = _ALWAYS if name == DEFAULT and not smoke else ()
    for option, field in _OPTIONS:
        values = getattr(experiment, field)
        if values != getattr(own, field) or field in always:
            listed = values if isinstance(values, tuple) else (values,)
            words += _options(option, listed)
    return tuple(words)


def _named(name: str) -> list[str]:
    return ["llmprof", "run"] if name == DEFAULT else ["llmprof", "run", name]


def _options(option: str, values: tuple[Any, ...]) -> list[str]:
    """An option with its values; models of the user's own have one for each."""
    own = [value for value in values if isinstance(value, OwnModel)]
    others = [value for value in values if not isinstance(value, OwnModel)]
    words = [option, ",".join(map(_word, others))] if others or not own else []
    for model in own:
        words += ["--model", model.source]
    given = {} if not own else dict(own[0].arguments)
    for name, value in given.items():
        words += ["--model-arg", f"{name}={value}"]
    return words


def _word(value: ModelShape | Value) -> str:
    """A model or an axis's value as the command line writes it."""
    if value is None:
        return NONE
    return value.name if isinstance(value, ModelShape) else str(value)
