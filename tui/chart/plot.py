"""A plot, drawn: axis, lines, shaded stretches, marks and direct labels as rows of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.tui.chart.cells import (
    Glyphs,
    Row,
    StyledRun,
    join_runs,
)
from llmprof.tui.chart.envelope import LowHigh, bucket, gaps
from llmprof.tui.chart.raster import (
    BRAILLE,
    DOTS_ACROSS,
    DOTS_DOWN,
    Merged,
    Raster,
    draw_line,
    merge,
    to_row,
)
from llmprof.tui.chart.scale import Scale
from llmprof.tui.chart.ticks import round_ticks, time_label, time_step


@dataclass(frozen=True)
class Line:
    """One series: points in order of x; role names its style, label stands at its end.

    A column that is None was read and is unknown: the line breaks there.
    """

    role: str
    label: str
    xs: Sequence[float]
    columns: Sequence[LowHigh]
    fill: bool = False
    reach: int | None = None  # dot columns without a value that are bridged; None: all
    name: str = ""  # said where the line is hidden by another
    letter: str = ""  # in ASCII; the label's or the name's first where there is none


@dataclass(frozen=True)
class MarkedPoint:
    """A single remarkable point."""

    x: float
    y: float
    role: str = "mark"


@dataclass(frozen=True)
class Plot:
    """All that a chart shows; x in seconds, y in the scale's base unit."""

    lines: tuple[Line, ...]
    x: tuple[float, float]
    y: tuple[float, float]
    scale: Scale
    shades: tuple[tuple[float, float], ...] = ()
    shade_label: str = ""
    shade_note: str = ""  # said where there is no room for the label
    marks: tuple[MarkedPoint, ...] = ()
    gutter: int = 7  # columns left of the axis
    label_width: int = 0  # columns for direct labels on the right
    time_axis: bool = True


@dataclass
class _Cells:
    text: list[list[str]]
    roles: list[list[str]]
    unsaid: str = ""


@dataclass(frozen=True)
class DrawnPlot:
    """Rows of exactly the width asked for, and in words what they cannot say: which lines another
    one covers, what a shade without room for its name is.
    """

    rows: list[Row]
    unsaid: str = ""


def render_plot(plot: Plot, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """Rows of exactly `width` characters; [] for a plot of no size."""
    return draw_plot(plot, width, height, glyphs).rows


def draw_plot(plot: Plot, width: int, height: int, glyphs: Glyphs) -> DrawnPlot:
    """The plot, and what of it cannot be seen."""
    body_width = width - plot.gutter - 1 - plot.label_width
    body_height = height - (1 if plot.time_axis else 0)
    if body_width < 4 or body_height < 1:
        return DrawnPlot([[(" " * max(width, 0), "")] for _ in range(max(height, 0))])
    cells = _body(plot, body_width, body_height, glyphs)
    labels = _labels(plot, body_height)
    y_ticks = _plot_ticks(plot, body_height)
    rows = []
    for at in range(body_height):
        axis = glyphs.tick if at in y_ticks else glyphs.axis
        left = f"{y_ticks.get(at, ''):>{plot.gutter}}"[: plot.gutter]
        row: Row = [(left + axis, "axis"), *join_runs(cells.text[at], cells.roles[at])]
        if plot.label_width:
            label, role = labels.get(at, ("", "axis"))
            row.append((f" {label}"[: plot.label_width].ljust(plot.label_width), role))
        rows.append(row)
    if plot.time_axis:
        rows.append(_time_axis(plot, body_width, glyphs))
    return DrawnPlot(rows, cells.unsaid)


def _body(plot: Plot, width: int, height: int, glyphs: Glyphs) -> _Cells:
    rasters = []
    for line in plot.lines:
        across = width * DOTS_ACROSS
        columns = bucket(line.xs, line.columns, *plot.x, across)
        unknown = frozenset(gaps(line.xs, line.columns, *plot.x, across))
        raster = Raster(width, height)
        draw_line(raster, columns, plot.y, fill=line.fill, reach=line.reach, unknown=unknown)
        rasters.append(raster)
    merged = merge(rasters, width, height)
    shaded = _shaded(plot, width)
    ground = [glyphs.shade if shade else " " for shade in shaded]
    shades = ["shade" if shade else "" for shade in shaded]
    text, roles = [list(ground) for _ in range(height)], [list(shades) for _ in range(height)]
    letters = [line.letter or (line.label or line.name or "*")[:1] for line in plot.lines]
    for y, drawn in enumerate(merged.masks):
        for x, mask in enumerate(drawn):
            if mask:
                owner = merged.owners[y][x]
                role = plot.lines[owner].role
                text[y][x] = chr(BRAILLE + mask) if glyphs.braille else letters[owner]
                roles[y][x] = f"{role}+shade" if shaded[x] else role
    unnamed = plot.shade_note if _write_shade_label(plot, text, roles) else ""
    _write_marks(plot, text, roles, glyphs)
    unsaid = ", ".join(filter(None, (_hidden(plot, merged), unnamed)))
    return _Cells(text, roles, unsaid)


def _hidden(plot: Plot, merged: Merged) -> str:
    lines = plot.lines
    return ", ".join(
        f"{lines[at].name} behind {lines[over].name}"
        for at, over in merged.hidden.items()
        if lines[at].name and lines[over].name
    )


def _shaded(plot: Plot, width: int) -> list[bool]:
    start, end = plot.x
    out = [False] * width
    for low, high in plot.shades:
        first = int((low - start) / (end - start) * width)
        last = int((high - start) / (end - start) * width)
        if high <= start or low >= end:
            continue
        for x in range(max(0, first), min(width, last + 1)):
            out[x] = True
    return out


def _write_shade_label(plot: Plot, text: list[list[str]], roles: list[list[str]]) -> bool:
    """Name the shaded stretch in the first free place; whether there is none for it."""
    label = plot.shade_label
    wanted = ["shade"] * len(label)
    seen = False
    for row_text, row_roles in zip(text, roles, strict=True):
        seen = seen or any(role.endswith("shade") for role in row_roles)
        for first in range(len(row_roles) - len(label) + 1 if label else 0):
            place = slice(first, first + len(label))
            if row_roles[place] == wanted:
                row_text[place] = label
                row_roles[place] = ["shade-label"] * len(label)
                return False
    return bool(label) and seen


def _write_marks(plot: Plot, text: list[list[str]], roles: list[list[str]], glyphs: Glyphs) -> None:
    start, end = plot.x
    height, width = len(text), len(text[0])
    for mark in plot.marks:
        if not start <= mark.x < end:
            continue
        x = int((mark.x - start) / (end - start) * width)
        y = to_row(mark.y, *plot.y, height * DOTS_DOWN) // DOTS_DOWN
        text[y][x] = glyphs.mark
        roles[y][x] = mark.role


def _plot_ticks(plot: Plot, height: int) -> dict[int, str]:
    low, high = plot.y
    out: dict[int, str] = {}
    for value in round_ticks(low, high, max(2, min(6, height // 2 + 1))):
        row = to_row(value, low, high, height * DOTS_DOWN) // DOTS_DOWN
        out[row] = plot.scale.tick(value) + " "
    return out


def _labels(plot: Plot, height: int) -> dict[int, StyledRun]:
    wanted = []
    for line in plot.lines:
        last = next((c for c in reversed(line.columns) if c is not None), None)
        if last is not None and line.label:
            row = to_row(last[1], *plot.y, height * DOTS_DOWN) // DOTS_DOWN
            wanted.append((row, line.label, line.role))
    wanted.sort(key=lambda item: item[0])
    return _spread(wanted, height)


def _spread(wanted: list[tuple[int, str, str]], height: int) -> dict[int, StyledRun]:
    """A row of its own for each label, as near to the wanted one as the others leave."""
    rows: list[int] = []
    for row, _, _ in wanted:
        rows.append(row if not rows else max(row, rows[-1] + 1))
    over = rows[-1] - (height - 1) if rows else 0
    if over > 0:
        limit = height - 1
        for at in range(len(rows) - 1, -1, -1):
            rows[at] = min(rows[at], limit)
            limit = rows[at] - 1
    return {
        row: (label, role)
        for row, (_, label, role) in zip(rows, wanted, strict=True)
        if 0 <= row < height
    }


def _time_axis(plot: Plot, width: int, glyphs: Glyphs) -> Row:
    """One row: a rule in which every label begins at its instant."""
    start, end = plot.x
    step = time_step(end - start, max(1, width // 12))
    cells = [(glyphs.floor, "axis")] * width
    tick = -(-start // step) * step
    while tick < end:
        x = int((tick - start) / (end - start) * width)
        label = time_label(tick)
        if x + len(label) <= width:
            cells[x : x + len(label)] = [(char, "muted") for char in label]
        tick += step
    text, roles = [char for char, _ in cells], [role for _, role in cells]
    pad = (" " * plot.gutter + glyphs.corner, "axis")
    return [pad, *join_runs(text, roles), (" " * plot.label_width, "axis")]
