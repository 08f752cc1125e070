"""The same training step in all its measurements: how far it comes out from run to run."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence

from llmprof.core.document.configurations import OF_MODEL, configuration_cells, switches_text
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found, pace, step_of
from llmprof.core.figures.host_pace import HostPace, host_pace
from llmprof.core.figures.replicates import processes_of
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
    found: dict[Hashable, list[Found]] = {}
    for source in sources:
        for state in source.cases:
            case = state.case
            if case.probe == "timing" and state.total is not None and case.warmup_steps > 0:
                found.setdefault(step_of(state), []).append((source, state))
    several = {key: cells for key, cells in found.items() if len({s.name for s, _ in cells}) > 1}
    rows = [(key, _cells(cells, sources)) for key, cells in several.items()]
    return keyed("same", "The same cell in all runs", (*OF_MODEL, *COLUMNS), rows, NOTES)


def _cells(found: Sequence[Found], sources: Sequence[Source]) -> tuple[Cell, ...]:
    processes = [each for _, state in found for each in processes_of(state)]
    means = sorted(each.total.mean for each in processes if each.total is not None)
    first = found[0][1]
    return (
        *configuration_cells(first),
        switches_text(first.case),
        ", ".join(dict.fromkeys(source.name for source, _ in found)),
        len(means),
        *map(rate_figure, (means[0], statistics.median(means), means[-1], means[-1] / means[0])),
        *_paces([read for each in processes if (read := host_pace(each)) is not None]),
        "; ".join(dict.fromkeys(filter(None, (pace(state, sources) for _, state in found)))),
    )


def _paces(read: Sequence[HostPace]) -> tuple[Cell, Cell]:
    launches = [each.us for each in read if each.of == "launch"]
    if not launches:
        return None, None
    return rate_figure(min(launches)), rate_figure(max(launches))
