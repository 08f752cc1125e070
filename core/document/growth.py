"""How time and memory grow with context: powers fitted over the cells where the card is busy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from llmprof.core.document.configurations import source_cells, source_columns, switches_text
from llmprof.core.document.figures.loglog import Reading
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import between_processes, measured_processes
from llmprof.core.report.attention import bytes_kept, grids
from llmprof.core.report.comparisons import grouped_alike
from llmprof.core.report.growth_fits import LAUNCH_BOUND, between, one_power, stands
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.state.view import CaseState
from llmprof.core.stats.power_fit import Power
from llmprof.core.stats.summary import Summary
from llmprof.core.system.units import MIB

NO_FIT, MEMORY_KEPT = "no fit", "attention memory kept"
EXACT = 0.1  # of an exponent: two digits
COLUMNS = (
    Column("What", numeric=False),
    Column("Variant", numeric=False),
    Column("Precision", numeric=False),
    Column("Batch"),
    Column("Exponent"),
    Column("Between neighbours", numeric=False),
    Column("Fitted from", "tokens"),
    Column("Fitted to", "tokens"),
    Column("Points"),
    Column("Left out for", numeric=False),
    Column("n", "processes"),
    Column("Longest context", "tokens"),
    Column("Time at the longest", "ms"),
    Column("Memory at the longest", "MiB"),
)
NOTES = (
    "Least squares of y = c·L^k in logarithms over the three largest contexts L at which the card "
    "and not the host set the pace. Between neighbours: the least and the greatest exponent from "
    "one of these points to the next; far apart, no one power describes them. Left out for: the "
    "checks, or the host's pace, that keep cells out of the fit. Memory kept is what "
    "a forward leaves for its backward: allocated bytes at its end less those at the step's start, "
    "so without inputs, library workspaces and llmprof's own buffers. The longest context is of "
    "those that ran.",
)


@dataclass(frozen=True)
class Growth:
    """One quantity over context, with its points, those of busy cells apart, and the fit."""

    source: Source
    what: str
    way: str
    points: tuple[Reading, ...]
    busy: tuple[Reading, ...]
    fit: Power | None
    processes: int
    unit: str  # of y
    states: tuple[CaseState, ...]  # behind the points

    @property
    def key(self) -> Hashable:
        """Its row."""
        return self.source.name, self.what, self.way


def growths(sources: Sequence[Source]) -> list[Growth]:
    """Attention's forward, backward and memory by width and way; whole steps by context."""
    return [*_attention(sources), *_steps(sources)]


def growth_table(found: Sequence[Growth], sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each quantity that has a fit."""
    head = source_columns(sources)
    return keyed(
        "growth",
        "Growth with context",
        (*head, *COLUMNS),
        ((each.key, (*source_cells(each.source, head), *_cells(each))) for each in found),
        NOTES,
    )


def _cells(found: Growth) -> tuple[Cell, ...]:
    last = max(found.points, key=lambda point: point.x)
    here = Figure(last.y, last.half or 0.01 * last.y)
    there = (here, None) if found.unit == "ms" else (None, here)
    case = found.states[0].case
    label = (found.what, found.way, case.precision, case.batch_size)
    fit = found.fit
    if fit is None:
        return (*label, NO_FIT, None, None, None, None, _left_out(found), found.processes,
                round(last.x), *there)  # fmt: skip
    return (
        *label,
        Figure(fit.exponent, EXACT),
        between(fit),
        round(fit.low),
        round(fit.high),
        fit.points,
        _left_out(found),
        found.processes,
        round(last.x),
        *there,
    )


def _left_out(found: Growth) -> str:
    """What keeps cells out of a fit, "" where nothing does."""
    subject = found.source.subject
    if found.unit != "ms":
        return ", ".join(subject.failed_counts(*found.states))
    bound = (LAUNCH_BOUND,) if any(map(is_launch_bound, found.states)) else ()
    return ", ".join((*subject.failed_checks(*found.states), *bound))


def _attention(sources: Sequence[Source]) -> list[Growth]:
    found = []
    for source in sources:
        for grid in grids(source.subject.as_one):
            for way in grid.ways:
                column = grid.column(way)
                width = column[0].case.model.name
                for phase in column[0].case.phases:
                    times = [
                        (state, _reading(state, mean))
                        for state in column
                        if (mean := state.summaries.get(phase)) is not None
                    ]
                    found += _grown(source, f"attention {phase}, {width}", way, times, "ms")
                kept = [
                    (state, Reading(float(state.case.context_length), size / MIB))
                    for state in column
                    if (size := bytes_kept(state)) is not None
                ]
                found += _grown(source, f"{MEMORY_KEPT}, {width}", way, kept, "MiB")
    return found


def _steps(sources: Sequence[Source]) -> list[Growth]:
    found = []
    for source in sources:
        timing = [state for state in source.cases if state.case.probe == "timing"]
        for group in grouped_alike(timing, BY_FIELD["context_length"]):
            ran = [
                (state, _reading(state, state.total)) for state in group if state.total is not None
            ]
            if len(ran) > 1:
                case = group[0].case
                what = f"{case.mode}, {case.model.name}, batch {case.batch_size}"
                found += _grown(source, what, switches_text(case), ran, "ms")
    return found


def _reading(state: CaseState, mean: Summary) -> Reading:
    """A time at its context, with the interval between processes where there are several."""
    half = mean.ci95 if between_processes(state) else None
    return Reading(float(state.case.context_length), mean.mean, half)


def _grown(
    source: Source, what: str, way: str, ran: list[tuple[CaseState, Reading]], unit: str
) -> list[Growth]:
    if len(ran) < 2:
        return []
    busy = tuple(point for state, point in ran if stands(source.subject, state, timed=unit == "ms"))
    processes = min(measured_processes(state) for state, _ in ran)
    points = tuple(point for _, point in ran)
    return [Growth(source, what, way, points, busy, one_power(busy), processes, unit,
                   tuple(state for state, _ in ran))]  # fmt: skip
