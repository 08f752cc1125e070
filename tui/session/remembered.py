"""The set-up pane's choices, kept from one screen to the next."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from llmprof.core.catalog.experiments import DEFAULT
from llmprof.core.spec.shape import ModelShape
from llmprof.core.system.atomic import write_file
from llmprof.core.system.homes import NoHome, state_home
from llmprof.core.system.text import clean
from llmprof.tui.session.choices import CHOSEN, LONGEST_OWN, NUMBER_FIELDS, Choices, experiments


def choices_file() -> Path:
    """Where the last choices are kept."""
    return state_home() / "screen.json"


def recall(models: dict[str, ModelShape], path: Path | None = None) -> Choices:
    """The last choices, the defaults where they can't be read or no longer make sense."""
    try:
        choices = msgspec.json.decode((path or choices_file()).read_bytes(), type=Choices)
    except (OSError, msgspec.MsgspecError, NoHome):
        return Choices()
    known = tuple(name for name in choices.models if name in models)
    texts = {f.name: clean(getattr(choices, f.name), 40) for f in NUMBER_FIELDS}
    words = {
        axis.plural: tuple(word for word in getattr(choices, axis.plural) if word in axis.words)
        or getattr(Choices(), axis.plural)
        for axis in CHOSEN
    }
    there = choices.experiment in experiments()
    return msgspec.structs.replace(
        choices,
        models=known or Choices().models,
        experiment=choices.experiment if there else DEFAULT,
        smoke=choices.smoke and there,
        card=clean(choices.card, 40),
        own_models=clean(choices.own_models, LONGEST_OWN),
        **texts,
        **words,
    )


def remember(choices: Choices, path: Path | None = None) -> None:
    """Keep the choices; a folder that can't be written is no reason to stop."""
    with contextlib.suppress(OSError, NoHome):
        write_file(path or choices_file(), msgspec.json.encode(choices))
