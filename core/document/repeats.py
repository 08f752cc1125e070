"""The same steps in several runs: equal cells know each other, and how far apart they came out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from llmprof.core.document.sources import Source
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.table import format_cell, rate_figure
from llmprof.core.spec.axes import BY_FIELD, neutral
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState


@dataclass(frozen=True)
class Repeats:
    """Cells of whichever run that measured the same steps on the same card after a warm-up."""

    cells: tuple[tuple[Source, CaseState], ...]

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs, each once."""
        return tuple(dict.fromkeys(source.name for source, _ in self.cells))

    @cached_property
    def processes(self) -> tuple[CaseState, ...]:
        """Every process with figures, those that a check says no to as well."""
        return tuple(
            each
            for _, state in self.cells
            for each in processes_of(state)
            if each.total is not None
        )

    @cached_property
    def means(self) -> tuple[float, ...]:
        """Their mean steps in milliseconds, the shortest first."""
        return tuple(sorted(each.total.mean for each in self.processes if each.total is not None))

    @property
    def low(self) -> float:
        """The shortest."""
        return self.means[0]

    @property
    def high(self) -> float:
        """The longest."""
        return self.means[-1]

    @property
    def text(self) -> str:
        """42.59 to 58.54, with the digits of the table of the same cells."""
        low, high = (format_cell(rate_figure(each)) for each in (self.low, self.high))
        return f"{low} to {high}"


def all_repeats(sources: Sequence[Source]) -> dict[Hashable, Repeats]:
    """Cells that measured the same steps, by what makes them the same."""
    found: dict[Hashable, list[tuple[Source, CaseState]]] = {}
    for source in sources:
        for state in source.cases:
            if state.total is not None and state.case.warmup_steps > 0:
                found.setdefault(repeats_key(state), []).append((source, state))
    return {key: Repeats(tuple(cells)) for key, cells in found.items()}


def repeats_of(state: CaseState, sources: Sequence[Source]) -> Repeats | None:
    """All processes of a cell in all runs; None where none was warmed up."""
    return all_repeats(sources).get(repeats_key(state))


def step_of(state: CaseState) -> str:
    """Equal for cases that run the same steps, however long they were warmed up."""
    return steps_of_case(state.case)


def steps_of_case(case: Case) -> str:
    """The same of a case."""
    return neutral(case.configuration(), (BY_FIELD["warmup_steps"],)).key


def repeats_key(state: CaseState) -> Hashable:
    """Equal for cells that measured the same steps on the same kind of card."""
    card = "" if state.environment is None else state.environment.device_name
    return step_of(state), state.case.probe, card
