"""What the set-up pane holds: checked while typing, written as a command, remembered."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from llmprof.core.experiments import DEFAULT, build_experiment
from llmprof.core.runs import default_home
from llmprof.core.spec import (
    Attention,
    Experiment,
    Mode,
    ModelShape,
    OptimizerKind,
    Precision,
    SpecError,
)
from llmprof.core.text import clean

MOST_CASES = 2000
BUDGET: dict[str, Any] = {"cpu_budget_s": None}  # sizes that were ticked are measured
_LARGEST = 10**7


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """The form as it stands: ticked names and typed texts."""

    models: tuple[str, ...] = ("small",)
    modes: tuple[Mode, ...] = ("train",)
    precisions: tuple[Precision, ...] = ("fp32",)
    attentions: tuple[Attention, ...] = ("naive",)
    optimizers: tuple[OptimizerKind, ...] = ("foreach",)
    context: str = "128"
    batch: str = "4"
    warmup: str = "5"
    steps: str = "10"


@dataclass(frozen=True)
class Checked:
    """An experiment, or what is wrong with which field."""

    experiment: Experiment | None
    cases: int
    errors: dict[str, str]

    @property
    def message(self) -> str:
        """The first thing that is wrong; "" when nothing is."""
        return next(iter(self.errors.values()), "")


NUMBERS = (
    ("context", "Context", 1, True),
    ("batch", "Batch", 1, True),
    ("warmup", "Warm-up", 0, True),
    ("steps", "Steps", 1, False),
)  # field, label, least, whether a list is allowed


def check(choices: Choices, models: dict[str, ModelShape]) -> Checked:
    """The experiment that the form describes, or its errors by field."""
    errors: dict[str, str] = {}
    numbers: dict[str, tuple[int, ...]] = {}
    for field, label, least, many in NUMBERS:
        try:
            numbers[field] = parse_numbers(getattr(choices, field), label, least, many)
        except ValueError as error:
            errors[field] = str(error)
    shapes = tuple(models[name] for name in choices.models if name in models)
    if not shapes:
        errors["models"] = "tick at least one model"
    for field in ("modes", "precisions", "attentions", "optimizers"):
        if not getattr(choices, field):
            errors[field] = f"choose at least one of {field}"
    if errors:
        return Checked(None, 0, errors)
    axes: dict[str, Any] = {
        "models": shapes,
        "modes": choices.modes,
        "precisions": choices.precisions,
        "attentions": choices.attentions,
        "optimizers": choices.optimizers,
        "context_lengths": numbers["context"],
        "batch_sizes": numbers["batch"],
        "warmup_steps": numbers["warmup"],
    }
    size = math.prod(len(axis) for axis in axes.values())
    if size > MOST_CASES:
        return Checked(None, size, {"models": f"{size:,} cases are too many; {MOST_CASES:,} go"})
    try:
        experiment = build_experiment(
            DEFAULT, axes | BUDGET | {"measure_steps": numbers["steps"][0]}
        )
    except SpecError as error:
        return Checked(None, 0, {"models": clean(str(error))})
    return Checked(experiment, len(experiment.cases()), {})


def parse_numbers(text: str, label: str, least: int, many: bool) -> tuple[int, ...]:
    """Whole numbers separated by commas, each once. Raises ValueError with a line for people."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{label}: a number is missing")
    if len(parts) > 1 and not many:
        raise ValueError(f"{label}: one number only")
    numbers: dict[int, None] = {}
    for part in parts:
        if not (part.isascii() and part.isdigit()):
            raise ValueError(f"{label}: {clean(part, 20)!r} is not a whole number")
        value = int(part[:20])
        if not least <= value <= _LARGEST:
            raise ValueError(f"{label}: {part[:20]} is not between {least} and {_LARGEST:,}")
        numbers[value] = None
    return tuple(numbers)


def command(experiment: Experiment) -> tuple[str, ...]:
    """The command line that runs the same experiment without a screen."""
    options: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
        ("--model-size", tuple(model.name for model in experiment.models), ()),
        ("--mode", experiment.modes, ()),
        ("--context-length", experiment.context_lengths, ()),
        ("--batch-size", experiment.batch_sizes, ()),
        ("--warmup-steps", experiment.warmup_steps, ()),
        ("--measure-steps", (experiment.measure_steps,), ()),
        ("--precision", experiment.precisions, ("fp32",)),
        ("--attention", experiment.attentions, ("naive",)),
        ("--optimizer", experiment.optimizers, ("foreach",)),
    ]
    words = ["llmprof", "run"]
    for name, values, default in options:
        if values != default:
            words += [name, ",".join(str(value) for value in values)]
    return tuple(words)


def command_line(experiment: Experiment) -> str:
    """The same as one line for a shell."""
    return shlex.join(command(experiment))


def memory_file() -> Path:
    """Where the last choices are kept."""
    return default_home() / "screen.json"


def recall(models: dict[str, ModelShape], path: Path | None = None) -> Choices:
    """The last choices, the defaults where they can't be read or no longer make sense."""
    try:
        choices = msgspec.json.decode((path or memory_file()).read_bytes(), type=Choices)
    except (OSError, msgspec.MsgspecError):
        return Choices()
    known = tuple(name for name in choices.models if name in models)
    texts = {field: clean(getattr(choices, field), 40) for field, *_ in NUMBERS}
    return msgspec.structs.replace(choices, models=known or Choices().models, **texts)


def remember(choices: Choices, path: Path | None = None) -> None:
    """Keep the choices; a folder that can't be written is no reason to stop."""
    target = path or memory_file()
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(choices))
        draft.replace(target)
