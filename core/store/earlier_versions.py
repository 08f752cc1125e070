"""Journals of earlier versions: the names that they use, as this version knows them."""

from __future__ import annotations

import msgspec

from llmprof.core import events as ev

# Version 0.1 named tables by their row in the field's list.
TABLES = {
    "M01": "model-sizes",
    "M02": "forward",
    "M03": "backward",
    "M04": "phases",
    "M05": "stability",
    "M06": "failures",
    "M07": "step-log",
    "M08": "summary",
    "M10": "phase-ratios",
    "lens": "attention-lens",
    "memory": "peak-memory",
}


def decode(line: bytes) -> ev.AnyEvent:
    """An event from one journal line of any version, with today's names.

    Raises what ev.decode raises.
    """
    try:
        event = ev.decode(line)
    except msgspec.ValidationError:
        event = ev.decode(_with_kinds_of_models(line))
    return translated(event)


def _with_kinds_of_models(line: bytes) -> bytes:
    """The line with what kind its models are: before own models there was one alone."""
    data = msgspec.json.decode(line)
    experiment = data.get("experiment") if isinstance(data, dict) else None
    models = experiment.get("models") if isinstance(experiment, dict) else None
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict):
            model.setdefault("kind", "reference")
    return msgspec.json.encode(data)


def translated(event: ev.AnyEvent) -> ev.AnyEvent:
    """The event with today's names."""
    if not isinstance(event, ev.RunStarted):
        return event
    tables = tuple(TABLES.get(name, name) for name in event.experiment.tables)
    experiment = msgspec.structs.replace(event.experiment, tables=tables)
    return msgspec.structs.replace(event, experiment=experiment)
