"""Experiment presets: the package's own and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from llmprof.core.catalog.files import check_fields, preset_tables, preset_text
from llmprof.core.catalog.models import builtin, select_models, user_folder
from llmprof.core.catalog.names import named, unknown
from llmprof.core.spec.axes import AXES, NONE, Axis
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_function import function_value, is_function, short_name
from llmprof.core.spec.shape import SpecError, attention_shape
from llmprof.core.system.text import clean

DEFAULT = "end-to-end"
SMOKE = "smoke"
WRITEUP = "writeup"  # what belongs to a write-up, and the fields that differ there
_FIELDS = frozenset(Experiment.__struct_fields__) | {"widths"}


def load_experiments() -> dict[str, dict[str, Any]]:
    """The fields of every experiment by name, the user's after and over the package's own.

    Raises SpecError, naming the file, for one that cannot be read.
    """
    found = dict(_experiments_from(builtin("experiments.toml"), "experiments.toml"))
    own = user_folder() / "experiments.toml"
    if own.is_file():
        found |= _experiments_from(preset_text(own, "experiments"), f"experiments file {own}")
    return found


def writeup_names() -> list[str]:
    """The experiments that belong to a write-up. Raises SpecError."""
    return [name for name, fields in load_experiments().items() if WRITEUP in fields]


def build_experiment(
    name: str,
    overrides: dict[str, Any],
    *,
    smoke: bool = False,
    writeup: bool = False,
    also: Sequence[str] = (),
) -> Experiment:
    """An experiment with some of its fields replaced; models are given by name or as shapes.

    smoke takes the small sizes that the experiment names, writeup what a write-up measures of
    it; overrides still replace both. also: other names that a message about an unknown one lists.
    Raises SpecError for an unknown experiment or a field that doesn't fit.
    """
    known = load_experiments()
    meant = named(name, known)
    if meant is None:
        raise SpecError(f"unknown experiment {unknown(name, (*known, *also))}")
    name, preset = meant, dict(known[meant])
    small, wider = preset.pop(SMOKE, None), preset.pop(WRITEUP, {})
    if smoke and small is None:
        raise SpecError(f"experiment {name} has no smoke sizes: add a [{name}.{SMOKE}] table")
    fields = _merged(preset, wider if writeup else {}, small if smoke else {}, overrides)
    fields["name"] = name
    _read_words(fields)
    fields["models"] = [msgspec.to_builtins(model) for model in _shapes(fields)]
    if "variants" in overrides:
        fields["variants"] = _variants(name, preset, overrides["variants"])
    try:
        experiment = msgspec.convert(fields, Experiment)
    except msgspec.ValidationError as error:
        raise SpecError(f"experiment {name}: {error}") from error
    experiment.cases()
    return experiment


def is_attention(name: str) -> bool:
    """Whether an experiment measures bare attentions; False for one that isn't there."""
    known = load_experiments()
    meant = named(name, known)
    return meant is not None and known[meant].get("probe") == "attention"


def _read_words(fields: dict[str, Any]) -> None:
    """Put None where a file writes "none" among the values of an axis, since TOML has no null."""
    for axis in AXES:
        if None in axis.values and axis.plural in fields:
            values = fields[axis.plural]
            if isinstance(values, list | tuple):
                fields[axis.plural] = [None if value == NONE else value for value in values]
        if axis.functions and axis.plural in fields:
            _read_functions(axis, fields)


def _read_functions(axis: Axis, fields: dict[str, Any]) -> None:
    """Look up the functions of the user's own among an axis's values.

    Where variants say what the axis is, each function is a variant beside them.
    """
    found = [
        value if value in axis.values or is_function(value) else function_value(value, axis.option)
        for value in fields[axis.plural]
    ]
    variants = list(fields.get("variants", ()))
    if not any(axis.field in variant for variant in variants):
        fields[axis.plural] = found
        return
    own = [value for value in found if is_function(value)]
    variants += [{"label": short_name(value), axis.field: value} for value in own]
    fields["variants"] = variants
    fields[axis.plural] = [value for value in found if value not in own] or [axis.neutral]


def _merged(*layers: dict[str, Any] | None) -> dict[str, Any]:
    """Later layers over earlier ones; of models and widths only the latest counts."""
    merged: dict[str, Any] = {}
    for layer in layers:
        if layer and {"models", "widths"} & layer.keys():
            merged.pop("models", None)
            merged.pop("widths", None)
        merged |= layer or {}
    return merged


def _shapes(fields: dict[str, Any]) -> list[Any]:
    models = list(fields.get("models", ()))
    if models and all(isinstance(model, str) for model in models):
        models = list(select_models(models))
    widths = fields.pop("widths", ())
    if not all(isinstance(width, int) for width in widths):
        raise SpecError(f"experiment {fields['name']}: widths must be whole numbers")
    return models + [attention_shape(width) for width in widths]


def _variants(name: str, preset: dict[str, Any], labels: list[str]) -> list[dict[str, Any]]:
    """Those of an experiment's variants that have these labels, in its own order."""
    known = {variant.get("label", ""): variant for variant in preset.get("variants", ())}
    meant = {label: named(label, known) for label in labels}
    missing = [label for label, found in meant.items() if found is None]
    if missing:
        there = unknown(missing[0], known) if known else f"{clean(missing[0], 60)!r}; it has none"
        raise SpecError(f"experiment {name} has no variant {there}")
    return [variant for label, variant in known.items() if label in meant.values()]


@lru_cache(8)
def _experiments_from(text: str, source: str) -> dict[str, dict[str, Any]]:
    tables = preset_tables(text, source)
    for name, table in tables.items():
        where = f"{source}: {clean(name, 60)}"
        if not {"models", "widths"} & table.keys():
            raise SpecError(f"{where} names no models")
        check_fields(table, _FIELDS | {SMOKE, WRITEUP}, where)
        for part in (SMOKE, WRITEUP):
            own = table.get(part, {})
            if not isinstance(own, dict):
                raise SpecError(f"{where}: {part!r} is not a table")
            check_fields(own, _FIELDS, f"{where}.{part}")
    return tables
