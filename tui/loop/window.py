"""A stretch of a loop's time cut into columns: means of parts, ranges of logged values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llmprof.core.report.loops import in_order
from llmprof.core.state.loops import LoopState
from llmprof.tui.chart.ticks import nice_ceiling

Floats = npt.NDArray[np.float64]
YOUNG_S = (30.0, 60.0, 120.0, 300.0)
QUANTILE = 0.9  # of the steps' walls: what is far above would press all else to the floor
HEADROOM = 1.3


@dataclass(frozen=True)
class Span:
    """A stretch of time in columns; it moves on by whole columns."""

    start_ns: int
    end_ns: int
    columns: int

    @classmethod
    def up_to(cls, end_ns: int, length_ns: int, columns: int) -> Span:
        """The span of a length that ends with the column in which `end_ns` lies."""
        size = max(1, length_ns // max(1, columns))
        end = (end_ns // size + 1) * size
        return cls(end - size * columns, end, columns)

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class PartColumns:
    """Milliseconds a step of each part in every column; a column without a step is zero."""

    names: tuple[str, ...]
    columns: tuple[tuple[float, ...], ...]
    typical: float  # a wall time that nearly all steps are within


def part_columns(loop: LoopState, span: Span) -> PartColumns:
    """The parts over a span; a step longer than a column stands in all that it covers."""
    rows = loop.rows
    first = max(0, rows.row_at(span.start_ns) - 1)
    seen = rows.stretch(first)
    names = in_order(list(seen.parts), str)
    starts = np.array(seen.start_ns, np.int64)
    counts = np.array(seen.count, np.float64)
    walls = np.array(seen.wall, np.float64)
    if not len(starts) or not span.columns:
        return PartColumns((), (), 0.0)
    size = (span.end_ns - span.start_ns) / span.columns
    ends = starts + walls * counts * 1e6
    at = ((ends - span.start_ns) // size).astype(np.int64)
    inside = (at >= 0) & (at < span.columns)
    steps = np.bincount(at[inside], counts[inside], span.columns)
    middles = span.start_ns + (np.arange(span.columns) + 0.5) * size
    covering = np.searchsorted(starts, middles, "right") - 1
    covered = (covering >= 0) & (middles <= ends[covering]) & (steps == 0)
    stacked = []
    for name in names:
        times = np.array(seen.parts[name], np.float64)
        sums = np.bincount(at[inside], (times * counts)[inside], span.columns)
        column: Floats = np.divide(sums, steps, out=np.zeros(span.columns), where=steps > 0)
        column[covered] = times[covering[covered]]
        stacked.append(column)
    shown = inside | np.isin(np.arange(len(starts)), covering[covered])
    typical = _nearly_all(walls[shown], counts[shown]) * HEADROOM
    columns = tuple(tuple(map(float, column)) for column in zip(*stacked, strict=True))
    return PartColumns(tuple(names), columns, typical)


def _nearly_all(walls: Floats, counts: Floats) -> float:
    """A wall time that nearly all steps are within, whatever time the others take; 0 of none."""
    if not len(walls):
        return 0.0
    order = np.argsort(walls)
    upto = np.cumsum(counts[order])
    return float(walls[order][np.searchsorted(upto, QUANTILE * upto[-1])])


def value_points(loop: LoopState, name: str, span: Span) -> tuple[list[float], list[float]]:
    """Seconds before the span's end, and a logged value there; without the unknown ones."""
    rows = loop.rows
    first = rows.row_at(span.start_ns)
    xs = (np.array(rows.start_ns(first), np.float64) - span.end_ns) / 1e9
    ys = np.array(rows.value(name, first))
    kept = np.isfinite(ys)
    return xs[kept].tolist(), ys[kept].tolist()


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Round ends of an axis that holds values, never one in the other's place."""
    low, high = min(values), max(values)
    size = max(high - low, 1e-3 * abs(high)) or 1.0
    step = nice_ceiling(size / 2)
    return math.floor(low / step) * step, math.ceil(high / step + 1e-9) * step


def shown_ns(window_s: float, age_ns: int) -> int:
    """The stretch that is shown: a window, less of it while a loop is younger; 0 s is all."""
    wanted = [age for age in (*YOUNG_S, window_s or math.inf) if age * 1e9 >= age_ns]
    return int(min(wanted[0], window_s or age_ns / 1e9) * 1e9) if wanted else int(window_s * 1e9)
