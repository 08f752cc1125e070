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


def translated(event: ev.AnyEvent) -> ev.AnyEvent:
    """The event with today's names."""
    if not isinstance(event, ev.RunStarted):
        return event
    tables = tuple(TABLES.get(name, name) for name in event.experiment.tables)
    experiment = msgspec.structs.replace(event.experiment, tables=tables)
    return msgspec.structs.replace(event, experiment=experiment)
