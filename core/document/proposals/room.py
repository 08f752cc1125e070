"""What fits in place of a case that did not."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.next_step import (
    OTHER,
    NextStep,
    Target,
)
from llmprof.core.predict.advice import advise
from llmprof.core.predict.as_event import room_here


def what_fits(of: Target) -> Iterator[NextStep]:
    """A command that fits in place of the smallest case that did not."""
    for source, state in of.tables.out_of_memory:
        environment = state.environment or source.environment
        key = (source.name, state.index)
        room = None if environment is None else room_here(environment)
        if room is None or of.tables.predicted is None:
            continue
        if not of.tables.predicted.known(key, "Predicted"):
            continue
        advised = advise(state.case, room)
        if advised:
            yield NextStep(
                (f"{state.case.model.name}, {state.case.mode}, was predicted to need ",
                 of.tables.predicted.quote(key, "Predicted"), " MiB and did not fit"),
                advised[0].command,
                f"it fits: {advised[0].text}",
                OTHER,
            )  # fmt: skip
            return
