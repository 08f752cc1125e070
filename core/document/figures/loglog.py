"""Growth in logarithms: measured points with their intervals, and the fitted powers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmprof.core.document.figures.svg import (
    SERIES,
    WIDTH,
    Figure,
    decades,
    drawing,
    line,
    marker,
    text,
)
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.report.table import Figure as Number
from llmprof.core.stats.power_fit import Point, Power

LEFT, RIGHT, TOP, HEIGHT = 60, 252, 30, 250  # at the right stand the series' names
APART = 15  # between names, which stand as near the ends of their lines as that allows
MOST_SERIES = len(SERIES)
Place = Callable[[float], float]


@dataclass(frozen=True)
class Reading(Point):
    """A measured point; half is the half-width of its mean's interval, None if unknown."""

    half: float | None = None


@dataclass(frozen=True)
class Series:
    """One quantity's points and its fit, if it has one."""

    label: str
    points: tuple[Reading, ...]
    fit: Power | None


def loglog(
    name: str, caption: str, series: Sequence[Series], across: str, up: str
) -> Figure | None:
    """Series on logarithmic axes, at most MOST_SERIES; None without two points."""
    shown = [
        each for each in series if sum(point.x > 0 and point.y > 0 for point in each.points) > 1
    ][:MOST_SERIES]
    points = [p for each in shown for p in each.points if p.x > 0 and p.y > 0]
    if not points:
        return None
    xs = sorted({point.x for point in points})
    ys = decades(min(p.y for p in points), max(p.y for p in points))
    bottom = TOP + HEIGHT

    def x(value: float) -> float:
        span = math.log(xs[-1] / xs[0]) or 1.0
        return LEFT + 14 + (WIDTH - LEFT - RIGHT - 28) * math.log(value / xs[0]) / span

    def y(value: float) -> float:
        return bottom - HEIGHT * math.log(value / ys[0]) / math.log(ys[-1] / ys[0])

    parts = [line((LEFT, y(t)), (WIDTH - RIGHT, y(t)), "rule") for t in ys]
    parts += [text(LEFT - 6, y(t) + 4, f"{t:,g}", "end") for t in ys]
    parts += [
        line((LEFT, TOP), (LEFT, bottom), "axis"),
        line((LEFT, bottom), (WIDTH - RIGHT, bottom), "axis"),
    ]
    parts += [text(x(t), bottom + 16, f"{t:,g}", "middle") for t in xs]
    parts += [text(LEFT, 14, up), text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, across, "middle")]
    for at, (each, hue) in enumerate(zip(shown, SERIES, strict=False)):
        parts += _series(each, hue, at, x, y)
    parts += _names(shown, x, y)
    height = bottom + 46
    data = _data(name, caption, shown)
    return Figure(name, caption, drawing(caption, height, parts), data)


def _label(each: Series) -> str:
    return each.label if each.fit is None else f"{each.label}: {each.fit.exponent:.2f}"


def _names(shown: Sequence[Series], x: Place, y: Place) -> list[str]:
    """Each series' name at the end of its line, pushed down where another stands there."""
    parts, last = [], -math.inf
    ends = [max((p for p in each.points if p.x > 0 and p.y > 0), key=lambda p: p.x)
            for each in shown]  # fmt: skip
    room = TOP + HEIGHT - APART * (len(shown) - 1)
    for place, at in enumerate(sorted(range(len(shown)), key=lambda i: y(ends[i].y))):
        level = max(min(y(ends[at].y), room + APART * place), last + APART)
        last = level
        left = WIDTH - RIGHT + 14
        parts += [
            line((x(ends[at].x) + 5, y(ends[at].y)), (left - 7, level), "rule"),
            marker((left, level), SERIES[at], at),
            text(left + 9, level + 4, _label(shown[at])),
        ]
    return parts


def _series(each: Series, name: str, shape: int, x: Place, y: Place) -> list[str]:
    parts = []
    for point in each.points:
        if point.x <= 0 or point.y <= 0:
            continue
        at, level = x(point.x), y(point.y)
        parts.append(marker((at, level), name, shape))
        if point.half and point.half < point.y:
            low, high = y(point.y - point.half), y(point.y + point.half)
            parts.append(line((at, low), (at, high), "bar"))
    fit = each.fit
    ends = [] if fit is None else [p for p in each.points if fit.low <= p.x <= fit.high]
    if fit is not None and ends:
        middle = math.exp(sum(math.log(p.y) for p in ends) / len(ends))
        centre = math.exp(sum(math.log(p.x) for p in ends) / len(ends))
        low, high = (middle * (end / centre) ** fit.exponent for end in (fit.low, fit.high))
        parts.append(line((x(fit.low), y(low)), (x(fit.high), y(high)), f"line {name}"))
    return parts


def _data(name: str, caption: str, series: Sequence[Series]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (each.label, Number(p.x), Number(p.y), None if p.half is None else Number(p.half))
        for each in series
        for p in each.points
    ]
    columns = (
        Column("Series", numeric=False),
        Column("Context", "tokens"),
        Column("Time", "ms"),
        Column("95 % interval", "±"),
    )
    return Table(name, caption, columns, tuple(rows))
