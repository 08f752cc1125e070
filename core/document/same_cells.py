"""The same training step in all its measurements: how far it comes out from run to run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from llmprof.core.document.configurations import OF_MODEL, configuration_cells, switches_text
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.repeats import Repeats, all_repeats
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import pace
from llmprof.core.figures.host_pace import HostPace, host_pace
from llmprof.core.report.table import Cell, Column, rate_figure

COLUMNS = (
    Column("Variant", numeric=False),
    Column("Runs", numeric=False),
    Column("n", "processes"),
    Column("Least", "ms"),
    Column("Median", "ms"),
    Column("Most", "ms"),
    Column("Most over least", "×"),
    Column("Host pace, fastest", "µs a launch"),
    Column("Host pace, slowest", "µs a launch"),
    Column("Pace set by", numeric=False),
)
NOTES = (
    "Means of the step in each process that measured it after a warm-up, in whichever run, checks "
    "that say no included. Host pace: of a short fixed load beside the steps, where it was read. "
    "Where the host sets the pace its own speed moves the step, from run to run and within one: "
    "figures of different runs are not compared.",
)


def same_table(sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each configuration that several runs measured."""
    several = {
        key: found
        for key, found in all_repeats(sources).items()
        if len(found.runs) > 1 and found.cells[0][1].case.probe == "timing"
    }
    rows = [(key, _cells(found, sources)) for key, found in several.items()]
    return keyed("same", "The same cell in all runs", (*OF_MODEL, *COLUMNS), rows, NOTES)


def _cells(found: Repeats, sources: Sequence[Source]) -> tuple[Cell, ...]:
    means, first = found.means, found.cells[0][1]
    return (
        *configuration_cells(first),
        switches_text(first.case),
        ", ".join(found.runs),
        len(means),
        *map(rate_figure, (means[0], statistics.median(means), means[-1], means[-1] / means[0])),
        *_paces([read for each in found.processes if (read := host_pace(each)) is not None]),
        "; ".join(dict.fromkeys(filter(None, (pace(state, sources) for _, state in found.cells)))),
    )


def _paces(read: Sequence[HostPace]) -> tuple[Cell, Cell]:
    launches = [each.us for each in read if each.of == "launch"]
    if not launches:
        return None, None
    return rate_figure(min(launches)), rate_figure(max(launches))
