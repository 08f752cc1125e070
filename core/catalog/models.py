"""Model presets: the package's own and the user's folder of TOML files."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from llmprof.core.catalog.files import preset, preset_files, preset_tables, preset_text
from llmprof.core.catalog.names import READ_AS_MISSING, named, unknown
from llmprof.core.spec.shape import ModelShape, SpecError
from llmprof.core.system.homes import config_home
from llmprof.core.system.text import clean

PACKAGE = Path(__file__).parents[2] / "presets"
ALL_MODELS = ("tiny", "small", "medium", "large", "xl", "2.7B")


def user_folder() -> Path:
    """Where a user's own presets are read from: $LLMPROF_PRESETS or the configuration folder.

    Raises SpecError when the variable names what is no folder.
    """
    folder = os.environ.get("LLMPROF_PRESETS")
    if folder and not Path(folder).is_dir():
        raise SpecError(f"LLMPROF_PRESETS: there is no folder {clean(folder, 200)}")
    return Path(folder) if folder else config_home() / "presets"


def builtin(name: str) -> str:
    """The text of one of the package's own preset files."""
    return (PACKAGE / name).read_text("utf-8")


def load_models() -> dict[str, ModelShape]:
    """Every model shape by name, the user's after and over the package's own.

    Raises SpecError, naming the file, for a preset that cannot be read.
    """
    models = dict(_models_from(builtin("models.toml"), "models.toml"))
    for path in preset_files(user_folder()):
        if path.name not in ("experiments.toml", "cards.toml"):
            models |= _models_from(preset_text(path, "preset"), f"preset file {path}")
    return models


def select_models(names: list[str]) -> tuple[ModelShape, ...]:
    """Shapes by name, in any case, each once; "all" means tiny to 2.7B.

    Raises SpecError for an unknown one.
    """
    models = load_models()
    chosen: dict[str, ModelShape] = {}
    for name in names:
        safe = clean(name, 200)  # as the names of models are
        meant = named(safe, ("all", *models))
        if meant is None:
            raise SpecError(f"unknown model {unknown(name, models)}")
        for each in ALL_MODELS if meant == "all" else (meant,):
            chosen[each] = models[each]
    return tuple(chosen.values())


def _why_no_name(name: str) -> str | None:
    """Why a model may not be called so, in words or none; None for a name that is fine."""
    if name.casefold() == "all" or "," in name or "+" in name or not name:
        return ""
    if name.casefold() in READ_AS_MISSING:
        return ": programs that read CSV take it for a missing value"
    return None


@lru_cache(64)
def _models_from(text: str, source: str) -> dict[str, ModelShape]:
    models = {}
    for name, table in preset_tables(text, source).items():
        safe = clean(name, 200)
        if (why := _why_no_name(safe)) is not None:
            raise SpecError(f"{source}: {safe!r} cannot be the name of a model{why}")
        models[safe] = preset({**table, "name": safe}, ModelShape, f"{source}: {safe}")
    return models
