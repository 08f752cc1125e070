"""The same step in several runs: how far apart it came out, which no interval within one shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import Quote, Sentence, number
from llmprof.core.document.steps import step_key, step_of
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key

APART = 1.1  # times as long


@dataclass(frozen=True)
class Reading:
    """A cell that says how long a step took, and in which run."""

    key: str
    run: str
    cell: Quote

    def ms(self) -> float:
        """The cell's number."""
        return number(self.cell)

    @property
    def told(self) -> Sentence:
        """48.7 ms in run end-to-end."""
        return (self.cell, f" ms in run {self.run}")


def spread(tables: Tables) -> Sentence:
    """The step that differs most from run to run, with its shortest and longest; () for none."""
    table = tables.steps
    readings = list(_readings(tables))
    widest: tuple[float, Sentence] = (APART, ())
    for source, state in tables.step_cells if table else ():
        assert table is not None
        alike = sorted((each for each in readings if each.key == step_of(state)), key=Reading.ms)
        if not alike or alike[0].run == alike[-1].run:
            continue
        ratio = alike[-1].ms() / alike[0].ms()
        if ratio > widest[0]:
            widest = (
                ratio,
                table.told(
                    step_key(source, state),
                    "The same step of {Size} {work} took {low} and {high}: figures of different "
                    "runs are not compared.",
                    work=work_of(table, step_key(source, state)),
                    low=alike[0].told,
                    high=alike[-1].told,
                ),
            )
    return widest[1]


def _readings(tables: Tables) -> Iterator[Reading]:
    """Sound steps in the tables of a document."""
    steps, changes, warm = tables.steps, tables.changes, tables.warmups
    for source, state in tables.step_cells if steps else ():
        if steps and state.total is not None and source.sound(state):
            yield Reading(step_of(state), source.name, steps.quote(step_key(source, state), "Step"))
    for change in tables.all_changes if changes else ():
        base, source = change.found.base, change.source
        if changes and source.sound(base):
            cell = changes.quote(change.key(change.found.total), "Baseline")
            yield Reading(step_of(base), source.name, cell)
    for source, group in tables.warmup_cells if warm else ():
        if warm and source.sound(group[-1]):
            cell = warm.quote(warmup_key(source, group[-1]), "Mean")
            yield Reading(step_of(group[-1]), source.name, cell)
