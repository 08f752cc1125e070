"""Experiment presets: the package's own and the user's."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import msgspec

from llmprof.core.presets import select_models, user_folder
from llmprof.core.spec import Experiment, SpecError
from llmprof.core.text import clean

DEFAULT = "end-to-end"
_FIELDS = frozenset(Experiment.__struct_fields__)


def load_experiments() -> dict[str, dict[str, Any]]:
    """The fields of every experiment by name, the user's after and over the package's own.

    Raises SpecError, naming the file, for one that cannot be read.
    """
    builtin = resources.files("llmprof.presets") / "experiments.toml"
    found = _parse(builtin.read_text("utf-8"), "experiments.toml")
    own = user_folder() / "experiments.toml"
    if own.is_file():
        try:
            text = own.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"experiments file {own}: {error}") from error
        found |= _parse(text, str(own))
    return found


def build_experiment(name: str, overrides: dict[str, Any]) -> Experiment:
    """An experiment with some of its fields replaced; models are given by name or as shapes.

    Raises SpecError for an unknown experiment or a field that doesn't fit.
    """
    known = load_experiments()
    if name not in known:
        raise SpecError(f"unknown experiment {clean(name, 60)!r}; there are {', '.join(known)}")
    fields = {**known[name], **overrides, "name": name}
    models = fields["models"]
    if models and isinstance(models[0], str):
        models = select_models(list(models))
    fields["models"] = [msgspec.to_builtins(model) for model in models]
    try:
        experiment = msgspec.convert(fields, Experiment)
    except msgspec.ValidationError as error:
        raise SpecError(f"experiment {name}: {error}") from error
    experiment.cases()
    return experiment


def _parse(text: str, source: str) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"experiments file {source}: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict) or "models" not in table:
            raise SpecError(f"experiments file {source}: {clean(name, 60)!r} names no models")
        unknown = set(table) - _FIELDS
        if unknown:
            raise SpecError(f"experiments file {source}: {name}: unknown field {min(unknown)!r}")
    return tables
