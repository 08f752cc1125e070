"""Stacked areas, drawn: one layer over the other, bands of time behind and above them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from llmprof.tui.chart.cells import Glyphs, Row, join_runs
from llmprof.tui.chart.scale import Scale
from llmprof.tui.chart.ticks import round_ticks

PARTS = 8  # steps in the height of a cell
_BLOCKS = " ▁▂▃▄▅▆▇█"
NO_LAYER = -1


@dataclass(frozen=True)
class Layer:
    """One area: its colour as a role, the modifier that puts it behind, and a letter."""

    role: str
    under: str
    letter: str


@dataclass(frozen=True)
class Band:
    """Columns start to end (not included) that belong together, named above the areas."""

    start: int
    end: int
    label: str
    role: str


@dataclass(frozen=True)
class StackedAreas:
    """All that is shown: a value a layer in each column, the lowest layer first."""

    layers: tuple[Layer, ...]
    columns: Sequence[Sequence[float]]
    limit: float
    scale: Scale
    bands: tuple[Band, ...] = ()
    labels: tuple[tuple[int, str], ...] = ()  # column and text of the ticks below
    cursor: int | None = None
    peak: int | None = None
    gutter: int = 7
    letters: bool = False  # letters in place of blocks and colours


def render_areas(areas: StackedAreas, height: int, glyphs: Glyphs) -> list[Row]:
    """Rows: names of the bands, the areas beside their axis, ticks of time."""
    body = height - 2
    if body < 1 or not areas.columns:
        return []
    cells = [_column(areas, at, body) for at in range(len(areas.columns))]
    _mark(areas, cells, body, glyphs)
    y_ticks = _area_ticks(areas, body)
    rows = [_names(areas)]
    for y in range(body):
        axis = glyphs.tick if y in y_ticks else glyphs.axis
        left = f"{y_ticks.get(y, ''):>{areas.gutter}}"[: areas.gutter] + axis
        text, roles = zip(*(column[y] for column in cells), strict=True)
        rows.append([(left, "axis"), *join_runs(text, roles)])
    return [*rows, _below(areas, glyphs)]


def fill(values: Sequence[float], limit: float, height: int) -> list[tuple[int, int, int]]:
    """For each cell of a column from the top: the two layers that fill most of it, and how.

    The lower one (NO_LAYER: none), the upper one (the same where there is one only), and how many
    of PARTS the lower one takes from the bottom. What is there at all shows one part at least.
    """
    bounds = [0]
    total = 0.0
    for value in values:
        total += value
        bounds.append(max(bounds[-1], round(total / limit * height * PARTS)))
    if total > 0 and bounds[-1] == 0:
        top = max(range(len(values)), key=values.__getitem__)
        bounds[top + 1 :] = [1] * (len(values) - top)
    return [_filled(bounds, row * PARTS) for row in range(height - 1, -1, -1)]


def _filled(bounds: Sequence[int], low: int) -> tuple[int, int, int]:
    high = low + PARTS
    shares = []
    for layer, (bottom, top) in enumerate(pairwise(bounds)):
        size = min(top, high) - max(bottom, low)
        if size > 0:
            shares.append((size, layer))
    free = high - max(low, min(high, bounds[-1]))
    if free:
        shares.append((free, NO_LAYER))
    if len(shares) > 2:
        kept = sorted(shares, key=lambda share: -share[0])[:2]
        shares = [share for share in shares if share in kept]
    if len(shares) == 1:
        return shares[0][1], shares[0][1], PARTS
    (one, lower), (other, upper) = shares
    return lower, upper, min(PARTS - 1, max(1, round(PARTS * one / (one + other))))


def _column(areas: StackedAreas, at: int, height: int) -> list[tuple[str, str]]:
    """Character and role of every cell of a column, the top one first."""
    shade = next((n % 2 for n, b in enumerate(areas.bands) if b.start <= at < b.end), 0)
    out = []
    for lower, upper, parts in fill(areas.columns[at], areas.limit, height):
        if lower == NO_LAYER:
            out.append((" ", "shade" if shade else ""))
        elif areas.letters:
            most = lower if parts * 2 >= PARTS else upper
            letter = " " if most == NO_LAYER else areas.layers[most].letter
            out.append((letter, "" if most == NO_LAYER else areas.layers[most].role))
        elif lower == upper:  # a background has no seams between lines
            out.append((" ", f"+{areas.layers[lower].under}"))
        else:
            role = areas.layers[lower].role
            if upper != NO_LAYER:
                role += f"+{areas.layers[upper].under}"
            elif shade:
                role += "+shade"
            out.append((_BLOCKS[parts], role))
    return out


def _mark(
    areas: StackedAreas, cells: list[list[tuple[str, str]]], height: int, glyphs: Glyphs
) -> None:
    """The cursor as a line over its column, and a mark on the peak."""
    if areas.cursor is not None and 0 <= areas.cursor < len(cells):
        at = areas.cursor
        for y, (lower, upper, _) in enumerate(fill(areas.columns[at], areas.limit, height)):
            if lower == upper or areas.letters:  # cells that two areas share stay as they are
                plain = lower == NO_LAYER or areas.letters
                under = "" if plain else f"+{areas.layers[lower].under}"
                cells[at][y] = (glyphs.axis, f"crosshair{under}")
    if areas.peak is not None and 0 <= areas.peak < len(cells):
        empty = [y for y, (char, _) in enumerate(cells[areas.peak]) if char in (" ", glyphs.axis)]
        y = _top(areas.columns[areas.peak], areas.limit, height)
        cells[areas.peak][max(0, y - 1) if empty else 0] = (glyphs.mark, "mark")


def _top(values: Sequence[float], limit: float, height: int) -> int:
    """Row of the highest cell that is not empty."""
    full = math.ceil(sum(values) / limit * height - 1e-9)
    return height - min(height, max(1, full))


def _names(areas: StackedAreas) -> Row:
    """Names of the bands where there is room for them, else their beginning."""
    width = len(areas.columns)
    text, roles = [" "] * width, [""] * width
    for band in areas.bands:
        start, end = max(0, band.start), min(width, band.end)
        label = _shortened(band.label, end - start)
        first = start + (end - start - len(label)) // 2
        text[first : first + len(label)] = label
        roles[first : first + len(label)] = [band.role] * len(label)
    return [(" " * (areas.gutter + 1), ""), *join_runs(text, roles)]


def _shortened(label: str, room: int) -> str:
    if len(label) < room:
        return label
    return label[: room - 1] if room > 4 else ""


def _area_ticks(areas: StackedAreas, height: int) -> dict[int, str]:
    out: dict[int, str] = {}
    divisor = areas.scale.divisor
    for tick in round_ticks(0.0, areas.limit / divisor, max(2, min(6, height // 2 + 1))):
        value = tick * divisor
        row = height - 1 - min(height - 1, int(value / areas.limit * height - 1e-9))
        out[row] = areas.scale.tick(value) + " "
    return out


def _below(areas: StackedAreas, glyphs: Glyphs) -> Row:
    width = len(areas.columns)
    text, roles = [glyphs.floor] * width, ["axis"] * width
    free = 0
    for at, label in areas.labels:
        if free <= at and at + len(label) <= width:
            text[at : at + len(label)] = label
            roles[at : at + len(label)] = ["muted"] * len(label)
            free = at + len(label) + 1
    return [(" " * areas.gutter + glyphs.corner, "axis"), *join_runs(text, roles)]
