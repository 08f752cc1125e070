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

# The kinds of events that say something else today.
TRANSLATED = (ev.RunStarted, ev.ModelBuilt, ev.CaseFailed)


def translated(event: ev.AnyEvent) -> ev.AnyEvent:
    """The event with today's names."""
    if isinstance(event, ev.CaseFailed):
        return msgspec.structs.replace(event, failure=_failure(event.failure))
    if isinstance(event, ev.ModelBuilt):
        own = event.form.endswith("with an optimizer of its own") and not event.optimizer
        return msgspec.structs.replace(event, optimizer=ev.ITS_OWN) if own else event
    if not isinstance(event, ev.RunStarted):
        return event
    tables = tuple(TABLES.get(name, name) for name in event.experiment.tables)
    experiment = msgspec.structs.replace(event.experiment, tables=tables)
    return msgspec.structs.replace(event, experiment=experiment)


def _failure(failure: ev.Failure) -> ev.Failure:
    """A case that the user stopped was once said to be killed, through nothing of its own."""
    stopped = failure.kind == "killed" and failure.outside
    return msgspec.structs.replace(failure, kind="stopped") if stopped else failure
