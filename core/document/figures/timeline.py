"""Requested memory over recorded steps, by category, with the peak marked."""

from __future__ import annotations

from collections.abc import Callable

from llmprof.core.document.figures.svg import (
    WIDTH,
    Figure,
    colour,
    drawing,
    legend,
    line,
    nice_ticks,
    text,
)
from llmprof.core.memory.kept_timeline import Points
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.report.table import Figure as Number
from llmprof.core.system.numbers import format_number
from llmprof.core.system.units import MIB

LEFT, RIGHT, TOP, HEIGHT = 70, 16, 48, 230
NEAR = 40  # pixels by which the name of a narrow stage may be pushed aside
LETTER = 6.5  # of a stage's name, at most, in pixels
Place = Callable[[float], float]
MOST_POINTS = 260  # more is finer than a page can show


def memory_timeline(points: Points, label: str, *, on_card: bool = True) -> Figure | None:
    """The stacked levels of one case; None of a timeline without points.

    on_card: a card ran the step, and its host only asked for memory.
    """
    if not points.t_us or not points.peak:
        return None
    size, unit = MIB, "MiB"  # as in the tables
    chosen = _thinned(points)
    span = max(points.t_us[-1], 1)
    ticks = nice_ticks(points.peak / size, 4)
    across, down = (WIDTH - LEFT - RIGHT) / span, HEIGHT / (ticks[-1] * size)
    bottom = TOP + HEIGHT

    def x(t_us: float) -> float:
        return LEFT + across * t_us

    def y(level: float) -> float:
        return bottom - down * level

    parts = [line((LEFT, y(t * size)), (WIDTH - RIGHT, y(t * size)), "rule") for t in ticks]
    parts += [text(LEFT - 6, y(t * size) + 4, f"{t:,g}", "end") for t in ticks]
    below = [0.0] * len(chosen)
    for name, levels in zip(CATEGORIES, points.levels, strict=True):
        above = [b + levels[at] for b, at in zip(below, chosen, strict=True)]
        if any(levels):
            upper = [(x(points.t_us[at]), y(v)) for at, v in zip(chosen, above, strict=True)]
            lower = [(x(points.t_us[at]), y(v)) for at, v in zip(chosen, below, strict=True)]
            parts.append(_area(name, upper, lower))
        below = above
    parts += _phases(points, x, bottom)
    parts += [
        text(LEFT, 12, f"requested memory ({unit})"),
        text((LEFT + WIDTH - RIGHT) / 2, bottom + 34, "time (ms)", "middle"),
        *(
            text(x(t * 1000), bottom + 16, f"{t:,g}", "middle")
            for t in nice_ticks(span / 1000, 8)
            if t * 1000 <= span
        ),
        *_peak(points, x, y, f"{format_number(points.peak / size)} {unit}"),
    ]
    shown = [each for each, levels in zip(CATEGORIES, points.levels, strict=True) if any(levels)]
    parts += legend([(each, _class(each)) for each in shown], LEFT, bottom + 58)
    caption = f"Requested memory over recorded steps, the peak marked: {label}"
    if on_card:
        caption += (
            ". Time is the host's, of each allocation as it was asked for, so that a step here is "
            "not as long as on the card"
        )
    height = bottom + 58 + 18 * ((len(shown) + 3) // 4)
    data = _data(points, chosen, caption)
    return Figure("memory-timeline", caption, drawing(caption, height, parts), data)


def _thinned(points: Points) -> list[int]:
    """Positions to draw: of each stretch the highest and the lowest, and the peak."""
    totals = [sum(column) for column in zip(*points.levels, strict=True)]
    if len(totals) <= MOST_POINTS:
        return list(range(len(totals)))
    width = -(-2 * len(totals) // MOST_POINTS)
    chosen = {0, len(totals) - 1, max(range(len(totals)), key=totals.__getitem__)}
    for start in range(0, len(totals), width):
        stretch = range(start, min(start + width, len(totals)))
        chosen |= {max(stretch, key=totals.__getitem__), min(stretch, key=totals.__getitem__)}
    return sorted(chosen)


def _class(category: str) -> str:
    return f"memory-{category.replace(' ', '-')}"


def _area(name: str, upper: list[tuple[float, float]], lower: list[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *lower[::-1]))
    return (
        f'<polygon class="area {_class(name)}" fill="{colour(_class(name))}" points="{path}">'
        f"<title>{name}</title></polygon>"
    )


def _phases(points: Points, x: Place, bottom: float) -> list[str]:
    parts = []
    taken = [float(LEFT), float(LEFT)]  # of the rows of names above the picture
    for _, phase, start, end in points.phases:
        left, right = x(start), x(end)
        parts.append(line((left, TOP), (left, bottom), "rule"))
        width, wide = LETTER * len(phase), right - left > LETTER * len(phase)
        row = 0 if wide else 1
        middle = (left + right) / 2
        if middle - width / 2 < taken[row]:
            middle = taken[row] + width / 2
        if middle + width / 2 > WIDTH or (middle - width / 2 > right + NEAR and not wide):
            continue  # named at an earlier step
        taken[row] = middle + width / 2 + LETTER
        parts.append(text(middle, TOP - 6 - 14 * row, phase, "middle", ' class="soft"'))
    return parts


def _peak(points: Points, x: Place, y: Place, label: str) -> list[str]:
    at, top = x(points.peak_t_us), y(points.peak)
    anchor, shift = ("end", -8) if at > WIDTH / 2 else ("start", 8)
    return [
        f'<circle class="bar" cx="{at:.1f}" cy="{top:.1f}" r="4"/>',
        text(at + shift, max(top - 5, TOP + 10), f"peak {label}", anchor, ' font-weight="bold"'),
    ]


def _data(points: Points, chosen: list[int], caption: str) -> Table:
    columns = (Column("Time", "ms"), *(Column(name, "MiB") for name in CATEGORIES))
    rows: list[tuple[Cell, ...]] = []
    for at in chosen:
        levels = (Number(column[at] / MIB, 0.01) for column in points.levels)
        rows.append((Number(points.t_us[at] / 1e3, 0.001), *levels))
    return Table("memory-timeline", caption, columns, tuple(rows))
