"""How time and memory grow with context: powers fitted over the cells where the card is busy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from llmprof.core.document.configurations import source_cells, source_columns, switches_text
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.attention import bytes_saved, grids
from llmprof.core.report.comparisons import grouped_alike
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.state.view import CaseState
from llmprof.core.stats.power_fit import Point, Power, fit_power
from llmprof.core.system.units import MIB

LEAST_POINTS = 3  # of a fit: through two points every power goes
LEAST_RANGE = 3.9  # largest over smallest context
WIDEST = 0.25  # half-width of an exponent that still says something
COLUMNS = (
    Column("What", numeric=False),
    Column("As", numeric=False),
    Column("Exponent"),
    Column("95 % interval", "±"),
    Column("From", "tokens"),
    Column("To", "tokens"),
    Column("Points"),
    Column("n", "processes"),
    Column("At most", "tokens"),
    Column("There", "ms or MiB"),
)
NOTES = (
    "Least squares of y = c·L^k in logarithms over the three largest contexts L at which the card "
    "and not the host set the pace. The interval follows from the points' own, of processes where "
    "there are several, else of the steps of one. Memory kept is what a forward leaves for its "
    "backward, allocated bytes.",
)


@dataclass(frozen=True)
class Growth:
    """One quantity over context, with its points, those of busy cells apart, and the fit."""

    source: Source
    what: str
    way: str
    points: tuple[Point, ...]
    busy: tuple[Point, ...]
    fit: Power | None
    processes: int
    unit: str  # of y

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
    there = Figure(last.y, last.half or 0.01 * last.y)
    label = (found.what, found.way)
    fit = found.fit
    if fit is None:
        return (*label, "too few busy cells", None, None, None, None, found.processes,
                round(last.x), there)  # fmt: skip
    half = fit.half if fit.half is not None else 0.01
    return (
        *label,
        Figure(fit.exponent, max(half, 0.01)),
        None if fit.half is None else Figure(max(half, 0.01), max(half, 0.01)),
        round(fit.low),
        round(fit.high),
        fit.points,
        found.processes,
        round(last.x),
        there,
    )


def _attention(sources: Sequence[Source]) -> list[Growth]:
    found = []
    for source in sources:
        for grid in grids(source.subject.as_one):
            for way in grid.ways:
                column = grid.column(way)
                width = column[0].case.model.name
                for phase in column[0].case.phases:
                    times = [
                        (state, Point(float(state.case.context_length), mean.mean, mean.ci95))
                        for state in column
                        if (mean := state.summaries.get(phase)) is not None
                    ]
                    found += _grown(source, f"attention {phase}, {width}", way, times, "ms")
                kept = [
                    (state, Point(float(state.case.context_length), size / MIB))
                    for state in column
                    if (size := bytes_saved(state)) is not None
                ]
                found += _grown(source, f"attention memory kept, {width}", way, kept, "MiB")
    return found


def _steps(sources: Sequence[Source]) -> list[Growth]:
    found = []
    for source in sources:
        timing = [state for state in source.cases if state.case.probe == "timing"]
        for group in grouped_alike(timing, BY_FIELD["context_length"]):
            ran = [
                (state, Point(float(state.case.context_length), state.total.mean, state.total.ci95))
                for state in group
                if state.total is not None
            ]
            if len(ran) > 1:
                case = group[0].case
                what = f"{case.mode}, {case.model.name}, batch {case.batch_size}"
                found += _grown(source, what, switches_text(case), ran, "ms")
    return found


def _grown(
    source: Source, what: str, way: str, ran: list[tuple[CaseState, Point]], unit: str
) -> list[Growth]:
    if len(ran) < 2:
        return []
    timed = unit == "ms"
    busy = tuple(
        point
        for state, point in ran
        if source.sound(state) and not (timed and is_launch_bound(state))
    )
    processes = min(len(processes_of(state)) for state, _ in ran)
    points = tuple(point for _, point in ran)
    return [Growth(source, what, way, points, busy, _fit(busy), processes, unit)]


def _fit(points: Sequence[Point]) -> Power | None:
    """A fit of enough points over enough of a range whose interval says something; else None."""
    fit = fit_power(points, LEAST_POINTS)
    if fit is None or fit.points < LEAST_POINTS or fit.high / fit.low < LEAST_RANGE:
        return None
    return None if fit.half is not None and fit.half > WIDEST else fit
