"""The same steps in several runs: equal cells know each other, and how far apart they came out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from llmprof.core.document.sources import Source
from llmprof.core.figures.replicates import processes_of
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import interval


@dataclass(frozen=True)
class Repeats:
    """Mean steps of every process, in milliseconds, that ran the same steps on the same card."""

    low: float
    high: float
    processes: int
    runs: int

    @property
    def text(self) -> str:
        """42.6 to 57.7."""
        return interval(self.low, self.high)


def repeats_of(state: CaseState, sources: Sequence[Source]) -> Repeats | None:
    """All processes of a cell in all runs, those that a check says no to as well."""
    wanted = _identity(state)
    found = [
        (source.name, each.total.mean)
        for source in sources
        for other in source.cases
        if _identity(other) == wanted
        for each in processes_of(other)
        if each.total is not None
    ]
    means = [mean for _, mean in found]
    if not means:
        return None
    return Repeats(min(means), max(means), len(means), len({name for name, _ in found}))


def _identity(state: CaseState) -> Hashable:
    card = "" if state.environment is None else state.environment.device_name
    return state.case.configuration().key, state.case.probe, card
